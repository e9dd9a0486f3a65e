"""Captions and figures that several sections share: how it was measured, lines, step anatomy, loss curves."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.series import PHASES
from scalewise.analysis.summary import ArmRow
from scalewise.course.gpus import GpuStep, Record
from scalewise.records.load import Run
from scalewise.report.cells import mark_of
from scalewise.report.document import BarPlot, Cell, Figure, LinePlot, Part, PlotSeries
from scalewise.units import listed

SeriesStyle = Literal["measured", "emulated", "predicted"]
BRACKET = "brackets: 95 % intervals"
SHOWN = {"DIM": "DIM", "DEPTH": "DEPTH", "BATCH": "batch", "ACCUM_STEPS": "ACCUM_STEPS", "LR": "LR", "STEPS": "steps"}
INSPECTED = "from one inspected run each"


def setting(
    evidence: Evidence, *experiments: str, but: Collection[str] = (), bracket: bool = True, inspected: bool = False
) -> str:
    """`DIM 1024, DEPTH 2, batch 64, 2 ranks, 45 steps, 3 repeats; brackets: ...`, from the runs that were made.

    Values that the table itself shows in a column are named in `but`. Where the machine could not carry what the course
    asks for, both sizes are said. A table without brackets says so (`bracket`), and so does one whose numbers are those
    of inspected runs.
    """
    named = [run for run in evidence.loaded.runs if run.spec.experiment in experiments]
    runs = [run for run in named if (run.spec.inspected if inspected else run.spec.timed)]
    if not runs:
        return ""
    said = []
    for name, word in SHOWN.items():
        values = list(dict.fromkeys(run.spec.env[name] for run in runs if name in run.spec.env))
        if name in but or not values:
            continue
        asked = dict.fromkeys(run.spec.asked[name] for run in runs if name in run.spec.asked)
        smaller = f" (course: {listed(list(asked))}; {_why_smaller(runs)})" if asked else ""
        said.append(f"{listed(values)} {word}" if word == "steps" else f"{word} {listed(values)}{smaller}")
    ranks = sorted({run.spec.world_size for run in runs})
    if "ranks" not in but and runs[0].spec.mode != "python":
        said.append(f"{listed([str(count) for count in ranks])} rank{'' if ranks == [1] else 's'}")
    said.append(INSPECTED if inspected else _times(runs))
    return f"{', '.join(said)}{f'; {BRACKET}' if bracket else ''}."


def why_lr(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """A note on an LR that looks too large; nothing where the suite set none."""
    named = [run for run in evidence.loaded.runs if run.spec.experiment in experiments and run.spec.timed]
    found = list(dict.fromkeys(run.spec.env["LR"] for run in named if "LR" in run.spec.env))
    if not found:
        return ()
    return (
        f"LR {listed(found)}: gradients of a mean over batch × DIM are small; with 0.01 the loss would hardly move.",
    )


def gpu_rows_heading(where: str, steps: Sequence[GpuStep | Record], *names: str) -> str:
    """A heading over rows of GPUs with the values they were made with: `On two NVIDIA H200, DIM 1024`."""
    told = [where]
    for name in names:
        values = sorted({one.env[name] for one in steps if name in one.env}, key=lambda text: (len(text), text))
        if values:
            word = SHOWN[name]
            told.append(f"{listed(values)} {word}" if word == "steps" else f"{word} {listed(values)}")
    return ", ".join(told)


def _why_smaller(runs: Sequence[Run]) -> str:
    """The suites' rule in short: steps of a GPU are short at any size that fits it."""
    if any(run.spec.device == "cuda" for run in runs):
        return "smaller to fit the memory"
    return "smaller for short steps"


def _times(runs: Sequence[Run]) -> str:
    """A phrase on how often each arm was measured; arms may differ."""
    counts: dict[tuple[object, ...], int] = {}
    for run in runs:
        arm = (
            run.spec.experiment,
            run.spec.world_size,
            *sorted((key, str(value)) for key, value in run.spec.axes.items()),
        )
        counts[arm] = max(counts.get(arm, 0), run.spec.repeat + 1)
    few, many = min(counts.values()), max(counts.values())
    if few < many:
        return f"measured {few} to {many} times"
    return f"measured {many} times" if many > 1 else "measured once"


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


def estimates_series(
    name: str, points: Iterable[tuple[float, Estimate]], scale: float = 1.0, style: SeriesStyle = "measured"
) -> PlotSeries:
    """Returns one line through estimates, each with its interval; `scale` converts them to the unit of the axis."""
    known = list(points)
    return PlotSeries(
        name,
        tuple(x for x, _ in known),
        tuple(scale * one.value for _, one in known),
        tuple(scale * one.low for _, one in known),
        tuple(scale * one.high for _, one in known),
        style,
    )


def cells_series(name: str, cells: Iterable[tuple[float, Cell]]) -> PlotSeries | None:
    """Returns one line through the cells that have a number; None if there is none."""
    known = [(x, cell.number, cell) for x, cell in cells if cell.number is not None]
    if not known:
        return None
    return PlotSeries(
        name,
        tuple(float(x) for x, _, _ in known),
        tuple(number for _, number, _ in known),
        tuple(number if cell.low is None else cell.low for _, number, cell in known),
        tuple(number if cell.high is None else cell.high for _, number, cell in known),
        "emulated" if any(cell.mark == "emulated" for _, _, cell in known) else "measured",
    )


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
