"""Draws stacked bars horizontally, so that their names can be read."""

from collections.abc import Callable
from typing import Any

from scalewise.report.canvas import Hit, place
from scalewise.report.document import BarPlot, Mark
from scalewise.report.legend import LONGEST_LABEL, bar_name, elided, legend_points, paint_legend
from scalewise.report.palette import GREY, INK, PAPER, colours_of
from scalewise.units import with_interval

BAR_POINTS = 15.0
OUTLINES = {"emulated": (0, (3, 1.5)), "predicted": (0, (1, 1.2)), "predicted*": (0, (1, 1.2)), "oversubscribed": "-"}
NO_BAR: tuple[Mark, ...] = ("failed", "missing")


def bars_height(plot: BarPlot, width_points: float, scale: float) -> float:
    """Returns the height in points of the bars, one axis, and a legend if there is more than one part."""
    lines = sum(1.0 + 0.35 * bar_name(name).count("\n") for name in plot.bars)
    names = [part.name for part in plot.parts]
    legend = legend_points(names, width_points) if len(names) > 1 else 0.0
    return max(3.0, lines) * BAR_POINTS * max(scale, 0.75) + 34 + legend


def paint_bars(figure: Any, axes: Any, plot: BarPlot) -> Callable[[], list[Hit]]:
    """Draws the bars, the first one on top, and returns the function that gives their hits."""
    colours = colours_of([part.name for part in plot.parts])
    rows = range(len(plot.bars))
    marks: tuple[Mark, ...] = plot.marks or tuple(_measured() for _ in rows)
    left = [0.0] * len(plot.bars)
    for part in plot.parts:
        values = [value if value == value else 0.0 for value in part.values]
        colour = colours[part.name] if len(plot.parts) > 1 else colours_of(["only"])["only"]
        for row in rows:
            _paint_piece(axes, row, left[row], values[row], colour, marks[row])
        left = [begin + value for begin, value in zip(left, values, strict=True)]
    _paint_intervals(axes, plot, left)
    _paint_totals(axes, plot, left, marks)
    axes.set_yticks(list(rows), [bar_name(name) for name in plot.bars], linespacing=0.85)
    axes.set_ylim(len(plot.bars) - 0.4, -0.6)
    axes.set_xlim(0, max([*left, *plot.high, 1e-12]) * 1.16)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(elided(plot.value_label, LONGEST_LABEL))
    axes.grid(axis="x")
    if len(plot.parts) > 1:
        _legend(figure, plot, colours)
    return lambda: _hits(axes, plot, marks)


def _measured() -> Mark:
    return "measured"


def _paint_piece(axes: Any, row: int, left: float, value: float, colour: str, mark: Mark) -> None:
    """Draws one part of a bar: outlined if oversubscribed, dashed if emulated, dotted if predicted."""
    if value <= 0 or mark in NO_BAR:
        return
    if mark == "measured":
        axes.barh(row, value, left=left, height=0.66, color=colour, edgecolor=PAPER, linewidth=0.5)
        return
    axes.barh(row, value, left=left, height=0.66, color=colour, alpha=0.28, linewidth=0)
    axes.barh(row, value, left=left, height=0.66, facecolor="none", edgecolor=colour, linewidth=0.9,
              linestyle=OUTLINES[mark])  # fmt: skip


def _paint_intervals(axes: Any, plot: BarPlot, totals: list[float]) -> None:
    if not (plot.low and plot.high):
        return
    for row, (low, high) in enumerate(zip(plot.low, plot.high, strict=True)):
        if high > low:
            axes.plot([low, high], [row, row], color=INK, linewidth=0.9, zorder=4, solid_capstyle="butt")


def _paint_totals(axes: Any, plot: BarPlot, totals: list[float], marks: tuple[Mark, ...]) -> None:
    """Writes the number at the end of each bar, rounded as in tables; not if all bars add up to 100 %."""
    shares = "%" in plot.value_label and len(plot.parts) > 1 and all(abs(total - 100) < 1 for total in totals)
    for row, total in enumerate(totals):
        told = plot.totals[row] if plot.totals else total
        word = "" if marks[row] == "measured" else marks[row]
        low, high = (plot.low[row], plot.high[row]) if plot.low and plot.high else (told, told)
        number = "" if shares or marks[row] in NO_BAR else with_interval(told, low, high)[0]
        end = 0.0 if marks[row] in NO_BAR else max(total, high)
        axes.annotate(" ".join(filter(None, (number, word))), (end, row), xytext=(3, 0), textcoords="offset points",
                      va="center", fontsize=7.5, color=GREY if word else INK)  # fmt: skip


def _legend(figure: Any, plot: BarPlot, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colours[part.name], edgecolor="none") for part in plot.parts]
    paint_legend(figure, handles, [part.name for part in plot.parts])


def _hits(axes: Any, plot: BarPlot, marks: tuple[Mark, ...]) -> list[Hit]:
    found = []
    for row, name in enumerate(plot.bars):
        begin = 0.0
        word = "" if marks[row] == "measured" else f", {marks[row]}"
        interval = f", interval of the whole [{plot.low[row]:.3g}, {plot.high[row]:.3g}]" if plot.low else ""
        for part in plot.parts:
            value = part.values[row]
            if value != value or value <= 0:
                continue
            left, top = place(axes, begin, row - 0.33)
            right, bottom = place(axes, begin + value, row + 0.33)
            text = f"{name}, {part.name}: {value:.4g} ({plot.value_label}){interval}{word}"
            found.append(Hit(left, top, max(right - left, 1.0), bottom - top, text))
            begin += value
    return found
