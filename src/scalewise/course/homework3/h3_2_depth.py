"""H3.2: the step over DEPTH on two devices: do more layers make it faster, and why not."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import Line, fit_line, spread_of
from scalewise.course.homework import Question, Told
from scalewise.course.homework3.layer_placement import (
    DEPTHS,
    SHARES,
    TWO,
    Placed,
    at_once_cell,
    busy_shares_text,
    placed_along,
    shares_phrase,
    why_in_turn,
)
from scalewise.course.page_pieces import estimates_series, setting
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Figure, LinePlot, PlotSeries, Section, Table

ORDER = 20
TABLE, FIGURE = "h3-2-depth", "h3-2-depth-line"
QUESTION = Question(
    "H3.2",
    "Do more layers make it faster? Why, or why not?",
    "Use the step times of the smallest and the largest DEPTH, and the share of forward and backward "
    "in which both devices work.",
)


@dataclass(frozen=True)
class DepthLine:
    """The step as a line over DEPTH, in milliseconds."""

    fitted: Line
    slope: Cell
    intercept: Cell


def build(evidence: Evidence) -> Section:
    """Builds the section: table, line, answer."""
    points = placed_along(evidence, TWO, "depth", DEPTHS)
    line = _line(points)
    figure = _figure(points, line)
    blocks: list[Block] = [_table(evidence, points, line), *([figure] if figure else [])]
    return Section("h3-2", "H3.2 DEPTH 6, 12, 24", (*blocks, _answer(points, line)), labelled=False)


def _line(points: tuple[Placed, ...]) -> DepthLine | None:
    known = [(point.value, point.row.step_seconds) for point in points if point.row and point.row.step_seconds]
    steps = [step for _, step in known]
    fitted = (
        fit_line([depth for depth, _ in known], [step.value for step in steps], spread_of(steps)) if known else None
    )
    if fitted is None:
        return None
    return DepthLine(fitted, estimate_cell(fitted.slope, 1e3), estimate_cell(fitted.intercept, 1e3))


def _table(evidence: Evidence, points: tuple[Placed, ...], line: DepthLine | None) -> Table:
    notes = (f"A further layer adds {said_with_interval(line.slope, 'ms')}: the slope of the line.",) if line else ()
    return Table(
        id=TABLE,
        title="Step time over DEPTH on two devices",
        columns=(
            Column("DEPTH"),
            Column("Step", "ms"),
            Column("Devices 0, 1 busy", SHARES, numeric=False),
            Column("Both busy", SHARES),
        ),
        rows=tuple(_cells(point) for point in points),
        notes=(*notes, *(f"DEPTH {point.value}: {point.missing}." for point in points if point.missing)),
        caption=setting(evidence, TWO, but=("DEPTH",)),
        runs=tuple(point.row.run_names if point.row else () for point in points),
    )


def _cells(point: Placed) -> tuple[Cell, ...]:
    seen = point.seen
    busy = text_cell(busy_shares_text(seen.devices)) if seen else empty_cell("this step was not looked into")
    return count_cell(point.value, mark=point.mark), point.step_cell, busy, at_once_cell(seen)


def _figure(points: tuple[Placed, ...], line: DepthLine | None) -> Figure | None:
    known = [(float(point.value), point.row.step_seconds) for point in points if point.row and point.row.step_seconds]
    if not known:
        return None
    depths = tuple(depth for depth, _ in known)
    emulated = any(point.mark == "emulated" for point in points)
    measured = estimates_series("two devices", known, 1e3, "emulated" if emulated else "measured")
    fitted = [PlotSeries("line", depths, tuple(line.fitted.at(x) * 1e3 for x in depths), style="model")] if line else []
    caption = "Whiskers are 95 % intervals."
    if line:
        caption = f"Line: {said(line.intercept, 'ms')} and {said(line.slope, 'ms')} for each layer. {caption}"
    return Figure(
        FIGURE,
        "Step time over DEPTH",
        caption,
        LinePlot("DEPTH", "time per step (ms)", (measured, *fitted), x_ticks=depths),
    )


def _answer(points: tuple[Placed, ...], line: DepthLine | None) -> Answer:
    known = [point for point in points if point.row and point.row.step_seconds]
    rests_on = (TABLE, *([FIGURE] if known else []))
    if line is None or len(known) < 2:
        return QUESTION.without_hint(
            "This cannot be answered: fewer than two depths have a step time.", rests_on=rests_on
        )
    slope = line.fitted.slope
    few, many = known[0], known[-1]
    steps = (
        f"DEPTH={few.value} takes {said(few.step_cell, 'ms')}, DEPTH={many.value} takes {said(many.step_cell, 'ms')}"
    )
    verdict: Told
    if slope.low > 0:
        verdict, number = (
            ("No", "every further layer makes the step longer."),
            f"{steps}. The line through all depths adds {said(line.slope, 'ms')} for each layer.",
        )
    elif slope.high < 0:
        verdict = (
            "In these runs, yes, against all expectation: more work took less time, so something else must have "
            "slowed the small models."
        )
        number = f"{steps}."
    else:
        verdict, number = "The steps vary too much to tell: the slope over DEPTH may be 0.", f"{steps}."
    seen = next((point.seen for point in reversed(points) if point.seen and point.seen.layers_seconds), None)
    busy = ""
    if seen and len(seen.devices) > 1 and slope.low > 0:
        busy = f" With DEPTH={many.value}, {shares_phrase(seen)} of forward and backward."
    return QUESTION.answer(
        verdict,
        number,
        (f"A layer is more work, and a second device takes none of it away. {why_in_turn(seen)}{busy}" if seen else ""),
        (
            "Two GPUs hold a model that one cannot, but train it no faster. Speed needs both to work at once: a"
            " pipeline of micro-batches."
        ),
        decided=f"The 95 % interval of the slope of step time over DEPTH, {said_with_interval(line.slope, 'ms')} "
        "for each layer, against 0.",
        rests_on=rests_on,
    )
