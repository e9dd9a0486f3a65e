"""One section for each experiment of a suite without its own sections: table, speedup, trace, anatomy."""

from collections.abc import Iterator, Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.memory_use import account_lines, growth_lines
from scalewise.analysis.summary import Analysis, ArmRow, ExperimentAnalysis
from scalewise.plan.words import value_text
from scalewise.report.cells import count_cell, estimate_cell, mark_of, number_cell, text_cell
from scalewise.report.document import Block, Cell, Column, Paragraph, Section, Table
from scalewise.report.sections.any_figures import anatomy, memory, speedup, trace
from scalewise.report.sections.any_utilisation import use_blocks
from scalewise.units import bytes_text, three_digits

ORDER = 100


def build(evidence: Evidence) -> tuple[Section, ...]:
    """Builds the sections in the order of the suite."""
    return tuple(_section(one, evidence.analysis) for one in evidence.analysis.experiments)


def _section(experiment: ExperimentAnalysis, analysis: Analysis) -> Section:
    blocks: list[Block] = [Paragraph(experiment.question)] if experiment.question else []
    headlines = headlines_of(experiment.rows)
    blocks += [Paragraph(one.text()) for one in headlines] if len(headlines) <= MOST_HEADLINES else []
    blocks.append(overview(experiment))
    blocks += [one for one in (speedup(experiment), trace(experiment), anatomy(experiment), memory(experiment)) if one]
    blocks += use_blocks(experiment)
    blocks += [Paragraph(text) for text in _refusals(experiment)]
    growths = [one for one in analysis.memory_growth if one.experiment == experiment.name]
    accounts = [one for one in analysis.memory_accounts if one.experiment == experiment.name]
    blocks += [Paragraph(text) for text in (*growth_lines(growths), *account_lines(accounts))]
    return Section(experiment.name, experiment.title or experiment.name, tuple(blocks))


def overview(experiment: ExperimentAnalysis) -> Table:
    """Returns a table with one row per arm: step time, throughput, scaling."""
    rows = experiment.rows
    changed = any(row.change != "none" for row in rows)
    scales = any(row.scaling.speedup and row.scaling.base != row.label for row in rows)
    columns = [Column(axis, numeric=False) for axis in experiment.axes]
    columns += [Column("changed", numeric=False)] if changed else []
    columns += [Column("ranks"), Column("step", "ms"), Column("samples", "1/s"), Column("varies", "%")]
    columns += [Column("speedup"), Column("efficiency", "%")] if scales else []
    return Table(
        id=f"{experiment.name}-steps",
        title="Step time and throughput, medians with 95 % intervals",
        columns=tuple(columns),
        rows=tuple(_cells(row, experiment.axes, changed, scales) for row in rows),
        notes=tuple(_notes(rows, scales)),
        runs=tuple(row.run_names for row in rows),
    )


def _cells(row: ArmRow, axes: Sequence[str], changed: bool, scales: bool) -> tuple[Cell, ...]:
    mark = mark_of(row)
    cells = [text_cell(value_text(row.axes[axis]) if axis in row.axes else "–") for axis in axes]
    cells += [text_cell("–" if row.change == "none" else row.change.replace("_", " "))] if changed else []
    cells += [
        count_cell(row.ranks),
        estimate_cell(row.step_seconds, 1e3, mark=mark, why_empty=row.reason),
        estimate_cell(row.samples_per_second, mark=mark, why_empty=row.reason or "samples per step were not seen"),
        number_cell(row.variation, 100, mark=mark, note="standard deviation over mean of a run's steps"),
    ]
    if scales:
        why = row.reason or row.scaling.refusal
        cells.append(estimate_cell(row.scaling.speedup, mark=mark, why_empty=why))
        cells.append(estimate_cell(row.scaling.efficiency, 100, mark=mark, why_empty=why))
    return tuple(cells)


def _notes(rows: Sequence[ArmRow], scales: bool) -> Iterator[str]:
    steps = [row.step_seconds.steps for row in rows if row.step_seconds]
    if steps:
        warm = max(row.warmup_steps or 0 for row in rows)
        yield f"{_between(steps)} steps a row, after warm-up (at most {warm} steps a run); varies: sd over mean."
    bases = dict.fromkeys(row.scaling.base for row in rows if row.scaling.base)
    if scales and bases:
        yield f"Speedup is against: {'; '.join(bases)}."
    if any(row.mark == "oversubscribed" for row in rows):
        yield "Oversubscribed: more ranks than shares of cores; that it runs, not how it scales."
    peaks = [peak for row in rows if (peak := row.memory.cuda_peak_allocated_bytes or row.memory.peak_rss_bytes)]
    if peaks:
        low, high = bytes_text(min(peaks)), bytes_text(max(peaks))
        yield f"Peak memory of a rank: {low if low == high else f'{low} to {high}'}."
    for row in rows:
        if row.reason:
            yield f"{row.label}: {row.reason}"


def _between(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _refusals(experiment: ExperimentAnalysis) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for one in experiment.refusals:
        if "oversubscribed" not in one.reason:
            by_reason.setdefault(one.reason, []).append(one.arm)
    for reason, arms in by_reason.items():
        yield f"No speedup for {'; '.join(arms)}: {reason}."
    slow = [row for row in experiment.rows if row.skew_seconds and row.step_seconds and row.ranks > 1]
    worst = max(
        slow,
        key=lambda row: (row.skew_seconds or 0) / (row.step_seconds.value if row.step_seconds else 1),
        default=None,
    )
    if worst and worst.skew_seconds and worst.step_seconds and worst.skew_seconds > 0.1 * worst.step_seconds.value:
        yield (
            f"Ranks differ most in {worst.label}: the slowest takes {three_digits(worst.skew_seconds * 1e3)} ms more "
            f"than the fastest in the middle of its steps; rank {worst.slowest_rank} is slowest most often."
        )
