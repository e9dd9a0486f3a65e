"""One section for each experiment of a suite without its own sections: tables, speedup, trace, anatomy, memory, use."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.memory_use import account_lines, growth_lines
from scalewise.analysis.series import PHASES
from scalewise.analysis.summary import Analysis, ArmRow, ExperimentAnalysis
from scalewise.plan.words import short_text, value_text
from scalewise.records.inspection import FAMILIES, HOST
from scalewise.report.cells import mark_of
from scalewise.report.document import (
    BarPlot,
    Block,
    Figure,
    LinePlot,
    Only,
    Paragraph,
    Part,
    PlotSeries,
    Section,
    ShadedSpan,
)
from scalewise.report.documents.measured_tables import phases_table, steps_table
from scalewise.report.documents.measurement_document import measurement_notes, use_blocks
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


MOST_BARS = 10
WORTH_DRAWING = 1.1  # bars that differ by less are not drawn; the table's note gives the number
MEBI = 2**20
MOST_FAMILY_BARS = 8
MOST_FAMILIES = 6  # more colours cannot be told apart
REST = "rest"


def speedup(experiment: ExperimentAnalysis) -> Figure | None:
    """Returns speedup over ranks, one line for each set of axis values, with the ideal."""
    groups: dict[str, list[ArmRow]] = {}
    for row in experiment.rows:
        if row.scaling.speedup is not None:
            groups.setdefault(_line_name(row, experiment), []).append(row)
    lines = {name: sorted(rows, key=lambda row: row.ranks) for name, rows in groups.items()}
    lines = {name: rows for name, rows in lines.items() if len({row.ranks for row in rows}) > 1}
    if not lines:
        return None
    ranks = sorted({row.ranks for rows in lines.values() for row in rows})
    ideal = PlotSeries("ideal", (ranks[0], ranks[-1]), (1.0, ranks[-1] / ranks[0]), style="ideal")
    plot = LinePlot(
        "ranks", "speedup", (ideal, *(_speedups(name, rows) for name, rows in lines.items())), x_ticks=tuple(ranks)
    )
    return Figure(f"{experiment.name}-speedup", "Speedup", "Bars are 95 % intervals.", plot)


def _line_name(row: ArmRow, experiment: ExperimentAnalysis) -> str:
    words = [f"{axis} {value_text(row.axes[axis])}" for axis in experiment.axes if axis in row.axes]
    words += [] if row.change == "none" else [short_text(row.change).replace("_", " ")]
    return ", ".join(words) or "measured"


def _speedups(name: str, rows: Sequence[ArmRow]) -> PlotSeries:
    found = [(row.ranks, row.scaling.speedup) for row in rows if row.scaling.speedup]
    return PlotSeries(
        name,
        tuple(float(ranks) for ranks, _ in found),
        tuple(one.value for _, one in found),
        tuple(one.low for _, one in found),
        tuple(one.high for _, one in found),
    )


def trace(experiment: ExperimentAnalysis) -> Figure | None:
    """Returns every step of one run per arm, so that warm-up can be seen."""
    runs = {one.name: one for one in experiment.runs}
    plain = [row for row in experiment.rows if row.change == "none" and row.step_seconds]
    chosen = [(row, runs[name]) for row in plain for name in row.run_names[:1] if name in runs][:5]
    if not chosen:
        return None
    warm = max(run.warmup_steps for _, run in chosen)
    plot = LinePlot(
        "step",
        "step time (ms)",
        tuple(_steps(row, run) for row, run in chosen),
        (ShadedSpan(0.5, warm + 0.5, "warm-up"),) if warm else (),
        log_y=_spread(chosen) > 8,
    )
    return Figure(f"{experiment.name}-trace", "Step by step", "First run of each arm; shaded: left out.", plot)


def _steps(row: ArmRow, run: RunFigures) -> PlotSeries:
    numbers = tuple(float(number) for number in range(1, len(run.step_seconds) + 1))
    return PlotSeries(row.label, numbers, tuple(seconds * 1e3 for seconds in run.step_seconds))


def _spread(chosen: Sequence[tuple[ArmRow, RunFigures]]) -> float:
    every = [seconds for _, run in chosen for seconds in run.step_seconds]
    return max(every) / min(every)


def anatomy(experiment: ExperimentAnalysis) -> Figure | None:
    """Returns the parts of a step's time."""
    rows = [row for row in experiment.rows if row.step_seconds and any(row.phase_seconds.values())][:MOST_BARS]
    if not rows:
        return None
    parts = [Part(phase, tuple(_milliseconds(row.phase_seconds.get(phase)) for row in rows)) for phase in PHASES]
    shown = tuple(part for part in parts if any(value > 0 for value in part.values))
    marks = tuple(mark_of(row) for row in rows)
    plot = BarPlot(
        tuple(_bar_name(row, experiment) for row in rows), shown, "ms per step, mean over ranks", marks=marks
    )
    return Figure(f"{experiment.name}-anatomy", "Where the time of a step goes", "", plot)


def _milliseconds(seconds: float | None) -> float:
    return nan if seconds is None else seconds * 1e3


def _bar_name(row: ArmRow, experiment: ExperimentAnalysis) -> str:
    words = [value_text(row.axes[axis]) for axis in experiment.axes if axis in row.axes]
    words += [f"{row.ranks} rank{'' if row.ranks == 1 else 's'}"]
    words += [] if row.change == "none" else [short_text(row.change).replace("_", " ")]
    return ", ".join(words)


def memory(experiment: ExperimentAnalysis) -> Figure | None:
    """Returns the peak memory of a rank: of the device if there is one, else of the process."""
    rows = [row for row in experiment.rows if row.change == "none"][:MOST_BARS]
    device = any(row.memory.cuda_peak_allocated_bytes for row in rows)
    peaks = [row.memory.cuda_peak_allocated_bytes if device else row.memory.peak_rss_bytes for row in rows]
    known = [(row, peak) for row, peak in zip(rows, peaks, strict=True) if peak]
    if not known or max(peak for _, peak in known) < WORTH_DRAWING * min(peak for _, peak in known):
        return None
    what = "peak device memory of a rank (MiB)" if device else "peak memory of a rank's process (MiB)"
    plot = BarPlot(
        tuple(_bar_name(row, experiment) for row, _ in known),
        (Part("peak", tuple(peak / MEBI for _, peak in known)),),
        what,
        marks=tuple(mark_of(row) for row, _ in known),
    )
    return Figure(f"{experiment.name}-memory", "Memory", "The largest over ranks.", plot)


def families(experiment: ExperimentAnalysis) -> Iterator[Figure]:
    """Yields the time of a profiled step by kernel family, if any arm was profiled."""
    shown = [row for row in experiment.utilisation if row.families][:MOST_FAMILY_BARS]
    if not shown:
        return
    by_row = [{one.family: 100 * one.share for one in row.families} for row in shown]
    totals = {family: sum(shares.get(family, 0.0) for shares in by_row) for family in (*FAMILIES, HOST)}
    largest = sorted(totals, key=lambda family: -totals[family])[:MOST_FAMILIES]
    parts = [
        Part(family, tuple(shares.get(family, 0.0) for shares in by_row))
        for family in totals
        if family in largest and totals[family]
    ]
    rest = tuple(sum(share for family, share in shares.items() if family not in largest) for shares in by_row)
    parts += [Part(REST, rest)] if any(share >= 1 for share in rest) else []
    plot = BarPlot(tuple(row.arm for row in shown), tuple(parts), "% of the profiled step")
    what = "kernels on the device" if shown[0].families_of == "kernels" else "operators in the main thread"
    caption = f"Time of one profiled step by {what}; {REST}: families with less time than these."
    yield Figure(f"{experiment.name}-families", "Time by kernel family", caption, plot)
