"""One section for each experiment of a suite without its own sections: tables, speedup, trace, anatomy, use."""

from collections.abc import Iterator
from dataclasses import replace

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.memory_use import account_lines, growth_lines
from scalewise.analysis.summary import Analysis, ExperimentAnalysis
from scalewise.report.document import Block, Only, Paragraph, Section
from scalewise.report.documents.measured_tables import phases_table, steps_table
from scalewise.report.documents.measurement_document import measurement_notes, use_blocks
from scalewise.report.sections.any_figures import anatomy, families, memory, speedup, trace
from scalewise.units import three_digits

ORDER = 100
MOST_SKEW = 0.1  # of a step: a larger difference between ranks is told


def build(evidence: Evidence) -> tuple[Section, ...]:
    """Builds the sections in the order of the suite."""
    return tuple(_section(one, evidence.analysis) for one in evidence.analysis.experiments)


def _section(experiment: ExperimentAnalysis, analysis: Analysis) -> Section:
    blocks: list[Block | Only] = [Paragraph(experiment.question)] if experiment.question else []
    headlines = headlines_of(experiment.rows)
    blocks += [Paragraph(one.text()) for one in headlines] if len(headlines) <= MOST_HEADLINES else []
    blocks.append(replace(steps_table(experiment), notes=tuple(measurement_notes(experiment))))
    figures = (speedup(experiment), trace(experiment), anatomy(experiment), memory(experiment))
    blocks += [one for one in figures if one]
    blocks += [phases_table(experiment)] if any(row.step_seconds for row in experiment.rows) else []
    blocks += (*use_blocks(experiment), *families(experiment), *map(Paragraph, _slowest(experiment)))
    growths = [one for one in analysis.memory_growth if one.experiment == experiment.name]
    accounts = [one for one in analysis.memory_accounts if one.experiment == experiment.name]
    blocks += [Paragraph(text) for text in (*growth_lines(growths), *account_lines(accounts))]
    return Section(experiment.name, experiment.title or experiment.name, tuple(blocks))


def _slowest(experiment: ExperimentAnalysis) -> Iterator[str]:
    """Yields the arm whose ranks differ most, if they differ much."""
    shares = {
        row.skew_seconds / row.step_seconds.value: row
        for row in experiment.rows
        if row.skew_seconds and row.step_seconds and row.ranks > 1
    }
    share = max(shares, default=0.0)
    if share > MOST_SKEW:
        row = shares[share]
        yield (
            f"Ranks differ most in {row.label}: the slowest takes {three_digits((row.skew_seconds or 0) * 1e3)} ms "
            f"more than the fastest in the middle of its steps; rank {row.slowest_rank} is slowest most often."
        )
