"""Cells and figures that several sections of the course share: memory by part, loss curves, step anatomy."""

from collections.abc import Sequence

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.series import PHASES
from scalewise.analysis.summary import ArmRow
from scalewise.report.cells import empty_cell, estimate_cell, mark_of
from scalewise.report.document import BarPlot, Cell, Figure, LinePlot, Mark, Part, PlotSeries

GIGABYTE = 1e9
MEGABYTE = 1e6
MEASURED: Mark = "measured"
AT_PEAK = "What existed together when the tensors of rank 0 held most, in a steady inspected step."
MOST_OF_EACH = "From inspected runs, rank 0, each storage counted once; the rest lives only in passing."


def seconds_cell(found: Estimate | None, mark: Mark = MEASURED) -> Cell:
    """Returns a step in seconds, as in the course's tables, with three significant digits."""
    if found is None:
        return empty_cell("not measured", mark if mark != MEASURED else "missing")
    return estimate_cell(found, mark=mark, note=f"{found.method}, {found.steps} steps")


def anatomy_figure(
    name: str, title: str, arms: Sequence[tuple[str, ArmRow | None]], caption: str, width: float = 0.5
) -> Figure | None:
    """Returns the phases of a step, one bar per arm; None if none was measured."""
    known = [(label, row) for label, row in arms if row and row.step_seconds]
    if not known:
        return None
    estimates = [row.step_seconds for _, row in known if row.step_seconds]
    lengths = [_lengths(row, one.value * 1e3) for (_, row), one in zip(known, estimates, strict=True)]
    parts = [Part(phase, tuple(each[phase] for each in lengths)) for phase in PHASES]
    parts = [part for part in parts if any(part.values)]
    plot = BarPlot(
        bars=tuple(label for label, _ in known),
        parts=tuple(parts),
        value_label="time per step (ms)",
        low=tuple(one.low * 1e3 for one in estimates),
        high=tuple(one.high * 1e3 for one in estimates),
        marks=tuple(mark_of(row) for _, row in known),
    )
    return Figure(name, title, caption, plot, width)


def _lengths(row: ArmRow, step: float) -> dict[str, float]:
    """Returns the table's step, divided in proportion to its phases: their medians rarely add up to its median."""
    phases = {phase: row.phase_seconds.get(phase) or 0.0 for phase in PHASES}
    whole = sum(phases.values())
    return {phase: step * seconds / whole if whole else 0.0 for phase, seconds in phases.items()}


def loss_series(name: str, figures: Sequence[RunFigures], scale: float = 1.0) -> PlotSeries | None:
    """Returns the first run's losses, step by step; None if none was seen."""
    losses = figures[0].losses if figures else ()
    known = [(float(step), loss * scale) for step, loss in enumerate(losses) if loss is not None]
    if not known:
        return None
    return PlotSeries(name, tuple(step for step, _ in known), tuple(loss for _, loss in known))


def distance_series(name: str, figures: Sequence[RunFigures], reference: Sequence[RunFigures]) -> PlotSeries | None:
    """Returns the relative distance of the losses from the reference's, without steps where both are equal."""
    if not figures or not reference:
        return None
    pairs = zip(figures[0].losses, reference[0].losses, strict=False)
    known = [(float(step), abs(a - b) / abs(b)) for step, (a, b) in enumerate(pairs) if a is not None and b]
    apart = [(step, distance) for step, distance in known if distance > 0]
    if not apart:
        return None
    return PlotSeries(name, tuple(step for step, _ in apart), tuple(distance for _, distance in apart))


def level_series(name: str, level: float, like: Sequence[PlotSeries]) -> PlotSeries:
    """Returns a level line as long as the others."""
    end = max((max(one.x) for one in like), default=1.0)
    return PlotSeries(name, (0.0, end), (level, level), style="ideal")


def loss_figure(
    name: str,
    title: str,
    caption: str,
    series: Sequence[PlotSeries | None],
    *,
    log_y: bool = False,
    y_label: str = "loss",
) -> Figure | None:
    """Returns the loss over steps; None if there is no curve."""
    known = tuple(one for one in series if one)
    if not known:
        return None
    return Figure(name, title, caption, LinePlot("optimizer step", y_label, known, log_y=log_y), 0.5)
