"""Draws distributions side by side: every value a dot, the quartiles a box and the median a line."""

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any

from scalewise.report.canvas import Hit, place
from scalewise.report.document import Mark, Sample, StripPlot
from scalewise.report.legend import LONGEST_LABEL, bar_name, elided
from scalewise.report.palette import GREY, INK, PAPER, colours_of
from scalewise.units import significant

STRIP_POINTS = 26.0
REACH = 0.3  # share of a strip's height over which dots are spread, so that equal values stay visible
OUTSIDE = 4.0  # a value farther away than so many widths of the box becomes an arrow at the edge, with its number
MEASURED: Mark = "measured"


def strips_height(plot: StripPlot, scale: float) -> float:
    """Returns the height in points."""
    return max(2, len(plot.samples)) * STRIP_POINTS * max(scale, 0.75) + 34


def paint_strips(figure: Any, axes: Any, plot: StripPlot) -> Callable[[], list[Hit]]:
    """Draws the samples, the first one on top, and returns the function that gives their hits."""
    colour = colours_of(["only"])["only"]
    known = [[value for value in sample.values if value == value] for sample in plot.samples]
    low, high = _window([value for values in known for value in values], known)
    for row, (sample, values) in enumerate(zip(plot.samples, known, strict=True)):
        if values:
            _paint_sample(axes, row, values, colour, sample.mark == MEASURED, (low, high))
    names = [bar_name(one.name if one.mark == MEASURED else f"{one.name}, {one.mark}") for one in plot.samples]
    axes.set_yticks(range(len(names)), names, linespacing=0.85)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(low, high)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(elided(plot.value_label, LONGEST_LABEL))
    axes.grid(axis="x")
    return lambda: [
        _hit(axes, row, sample, values, plot.value_label)
        for row, (sample, values) in enumerate(zip(plot.samples, known, strict=True))
        if values
    ]


def _window(every: Sequence[float], known: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns the range of the axis: all values except a few that would squeeze the others into a corner."""
    if not every:
        return 0.0, 1.0
    boxes = [_quartiles(values) for values in known if values]
    least, most = min(box[0] for box in boxes), max(box[2] for box in boxes)
    room = OUTSIDE * ((most - least) or abs(most) or 1.0)
    inside = [value for value in every if least - room <= value <= most + room]
    margin = 0.05 * (max(inside) - min(inside) or abs(most) or 1.0)
    begin = min(inside) - margin
    return (max(begin, 0.0) if min(every) >= 0 else begin), max(inside) + margin


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, median(values), third


def _paint_sample(
    axes: Any, row: int, values: Sequence[float], colour: str, filled: bool, window: tuple[float, float]
) -> None:
    first, middle, third = _quartiles(values)
    shown = [(index, value) for index, value in enumerate(values) if window[0] <= value <= window[1]]
    # The golden ratio spreads the dots evenly, and the same in every drawing.
    heights = [row + REACH * (2 * (index * 0.6180339887 % 1) - 1) for index, _ in shown]
    axes.scatter([value for _, value in shown], heights, s=7, linewidths=0.6, alpha=0.55, zorder=2,
                 edgecolors=colour, facecolors=colour if filled else PAPER)  # fmt: skip
    axes.plot([first, third, third, first, first], [row - 0.36, row - 0.36, row + 0.36, row + 0.36, row - 0.36],
              color=INK, linewidth=0.8, zorder=3)  # fmt: skip
    axes.plot([middle, middle], [row - 0.36, row + 0.36], color=INK, linewidth=1.8, zorder=4, solid_capstyle="butt")
    beyond = [value for value in values if value > window[1]]
    if beyond:
        text = f"{len(beyond)} up to {significant(max(beyond))} →"
        axes.annotate(text, (1.0, row - 0.42), xycoords=axes.get_yaxis_transform(), ha="right", va="center",
                      fontsize=6.5, color=GREY)  # fmt: skip


def _hit(axes: Any, row: int, sample: Sample, values: Sequence[float], label: str) -> Hit:
    first, middle, third = _quartiles(values)
    left, top = place(axes, first, row - 0.36)
    right, bottom = place(axes, third, row + 0.36)
    word = "" if sample.mark == MEASURED else f", {sample.mark}"
    text = (
        f"{sample.name}: median {significant(middle)}, quartiles {significant(first)} and {significant(third)}, "
        f"{len(values)} values from {significant(min(values))} to {significant(max(values))} ({label}){word}"
    )
    return Hit(left, top, max(right - left, 2.0), bottom - top, text)
