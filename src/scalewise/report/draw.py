"""Draws a figure's plot as SVG: bars, distributions and timelines here, lines in `draw_lines.py`, in one style."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median, quantiles
from typing import Any

from scalewise.report.canvas import (
    GREY,
    INK,
    LONGEST_LABEL,
    PAPER,
    SHADE,
    Drawing,
    Hit,
    bar_name,
    colours_of,
    drawn,
    elided,
    legend_points,
    paint_legend,
    place,
    text_width,
)
from scalewise.report.document import BarPlot, Figure, LinePlot, Mark, Sample, StripPlot, TimelinePlot
from scalewise.report.draw_lines import lines_height, paint_lines
from scalewise.units import significant, with_interval

MEASURED: Mark = "measured"
TEXT_POINTS = 482.0  # default width of the text: A4 less 20 mm on both sides
GUTTER_POINTS = 14.0
BAR_POINTS = 15.0
OUTLINES = {"emulated": (0, (3, 1.5)), "predicted": (0, (1, 1.2)), "predicted*": (0, (1, 1.2)), "oversubscribed": "-"}
NO_BAR: tuple[Mark, ...] = ("failed", "missing")
STRIP_POINTS = 26.0
REACH = 0.3  # share of a strip's height over which dots are spread, so that equal values stay visible
OUTSIDE = 4.0  # a value farther away than so many widths of the box becomes an arrow at the edge, with its number
LANE_POINTS = 15.0
THINNEST_HIT = 2.0
NUMBER_SIZE = 6.5
REDUCE = "all-reduce"
HIDDEN = "all-reduce behind computing"
COMPUTING = ("forward", "backward", "optimizer")
DARK = 0.45  # lightness of a colour: letters on darker colours are light


@lru_cache(maxsize=128)  # the PDF and the HTML show the same drawings
def draw(figure: Figure, scale: float = 1.0, text_points: float = TEXT_POINTS) -> Drawing:
    """Draws a figure at its width in a text of this width; `scale` below 1 makes it lower, not narrower."""
    width = width_points(figure.width, text_points)
    plot = figure.plot
    if isinstance(plot, LinePlot):
        return drawn(lambda page, axes: paint_lines(page, axes, plot), width, lines_height(plot, width) * scale)
    if isinstance(plot, BarPlot):
        return drawn(lambda page, axes: paint_bars(page, axes, plot), width, bars_height(plot, width, scale))
    if isinstance(plot, StripPlot):
        return drawn(lambda page, axes: paint_strips(page, axes, plot), width, strips_height(plot, scale))
    return drawn(lambda page, axes: paint_timeline(page, axes, plot), width, timeline_height(plot, scale, width))


def width_points(share: float, text_points: float = TEXT_POINTS) -> float:
    """Returns the width of a figure with this share of the text's width, beside the others of its row."""
    bounded = min(max(share, 0.25), 1.0)
    beside = max(1, round(1 / bounded))
    return bounded * (text_points - GUTTER_POINTS * (beside - 1))


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
    marks: tuple[Mark, ...] = plot.marks or (MEASURED,) * len(plot.bars)
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
        _bars_legend(figure, plot, colours)
    return lambda: _bar_hits(axes, plot, marks)


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


def _bars_legend(figure: Any, plot: BarPlot, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colours[part.name], edgecolor="none") for part in plot.parts]
    paint_legend(figure, handles, [part.name for part in plot.parts])


def _bar_hits(axes: Any, plot: BarPlot, marks: tuple[Mark, ...]) -> list[Hit]:
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
            _paint_strip(axes, row, values, colour, sample.mark == MEASURED, (low, high))
    names = [bar_name(one.name if one.mark == MEASURED else f"{one.name}, {one.mark}") for one in plot.samples]
    axes.set_yticks(range(len(names)), names, linespacing=0.85)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(low, high)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(elided(plot.value_label, LONGEST_LABEL))
    axes.grid(axis="x")
    return lambda: [
        _strip_hit(axes, row, sample, values, plot.value_label)
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


def _paint_strip(
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


def _strip_hit(axes: Any, row: int, sample: Sample, values: Sequence[float], label: str) -> Hit:
    first, middle, third = _quartiles(values)
    left, top = place(axes, first, row - 0.36)
    right, bottom = place(axes, third, row + 0.36)
    word = "" if sample.mark == MEASURED else f", {sample.mark}"
    text = (
        f"{sample.name}: median {significant(middle)}, quartiles {significant(first)} and {significant(third)}, "
        f"{len(values)} values from {significant(min(values))} to {significant(max(values))} ({label}){word}"
    )
    return Hit(left, top, max(right - left, 2.0), bottom - top, text)


def timeline_height(plot: TimelinePlot, scale: float, width_points: float) -> float:
    """Returns the height in points."""
    lanes = max(2, len(plot.lanes)) * LANE_POINTS * max(scale, 0.75)
    return lanes + 32 + legend_points([*_phases(plot), HIDDEN, "idle"], width_points)


def paint_timeline(figure: Any, axes: Any, plot: TimelinePlot) -> Callable[[], list[Hit]]:
    """Draws the lanes, the first one on top, and shades the times in which a lane has no work."""
    phases = _phases(plot)
    colours = colours_of(phases)
    end = max((stop for lane in plot.lanes for _, stop, _ in lane.stretches), default=1.0)
    cover = _computing(plot)
    for row, lane in enumerate(plot.lanes):
        axes.barh(row, end, height=0.66, color=SHADE, linewidth=0, zorder=0)
        for begin, stop, phase in lane.stretches:
            axes.broken_barh([(begin, stop - begin)], (row - 0.33, 0.66), facecolors=colours[phase], linewidth=0)
            if phase == REDUCE:
                veiled = [(a, b - a) for a, b in _common(begin, stop, cover)]
                axes.broken_barh(veiled, (row - 0.33, 0.66), facecolors=PAPER, alpha=0.55, linewidth=0)
            # A thin white line separates stretches of one phase.
            axes.plot([stop, stop], [row - 0.33, row + 0.33], color=PAPER, linewidth=0.5, solid_capstyle="butt")
    axes.set_yticks(range(len(plot.lanes)), [bar_name(lane.name) for lane in plot.lanes])
    axes.set_ylim(len(plot.lanes) - 0.4, -0.6)
    axes.set_xlim(0, end)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(elided(plot.x_label, LONGEST_LABEL))
    _timeline_legend(figure, phases, colours, bool(cover))
    figure.draw_without_rendering()
    _paint_numbers(figure, axes, plot, colours, cover)
    return lambda: _stretch_hits(axes, plot)


def _phases(plot: TimelinePlot) -> list[str]:
    return list(dict.fromkeys(phase for lane in plot.lanes for _, _, phase in lane.stretches))


def _computing(plot: TimelinePlot) -> list[tuple[float, float]]:
    """Returns when the only computing lane computes; nothing if several compute or no other lane has all-reduces."""
    lanes = [lane for lane in plot.lanes if any(phase in COMPUTING for _, _, phase in lane.stretches)]
    reduces = [lane for lane in plot.lanes if any(phase == REDUCE for _, _, phase in lane.stretches)]
    if len(lanes) != 1 or not [lane for lane in reduces if lane not in lanes]:
        return []
    return [(begin, stop) for begin, stop, phase in lanes[0].stretches if phase in COMPUTING]


def _common(begin: float, stop: float, cover: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the parts of a stretch that overlap with the cover."""
    return [(max(begin, a), min(stop, b)) for a, b in cover if max(begin, a) < min(stop, b)]


def _paint_numbers(
    figure: Any, axes: Any, plot: TimelinePlot, colours: dict[str, str], cover: Sequence[tuple[float, float]]
) -> None:
    """Writes the numbers of micro-batches and buckets into the stretches that have room for them."""
    for row, lane in enumerate(plot.lanes):
        for (begin, stop, phase), number in zip(lane.stretches, lane.numbers, strict=bool(lane.numbers)):
            room = axes.transData.transform((stop, 0))[0] - axes.transData.transform((begin, 0))[0]
            if text_width(figure, f"{number}", NUMBER_SIZE) + 1 > room:
                continue
            veiled = phase == REDUCE and bool(_common(begin, stop, cover))
            colour = INK if veiled or _lightness(colours[phase]) > DARK else PAPER
            axes.text((begin + stop) / 2, row, f"{number}", ha="center", va="center_baseline", fontsize=NUMBER_SIZE,
                      color=colour)  # fmt: skip


def _lightness(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _timeline_legend(figure: Any, phases: Sequence[str], colours: dict[str, str], hidden: bool) -> None:
    from matplotlib.patches import Patch

    handles = {name: Patch(facecolor=colours[name], edgecolor="none") for name in phases}
    if hidden:
        handles[HIDDEN] = Patch(facecolor=_lighter(colours[REDUCE]), edgecolor="none")
    handles["idle"] = Patch(facecolor=SHADE, edgecolor=GREY, linewidth=0.3)
    paint_legend(figure, list(handles.values()), list(handles))


def _lighter(colour: str) -> tuple[float, float, float]:
    """Returns the colour as it looks under the half-transparent white layer."""
    red, green, blue = (0.45 * int(colour[at : at + 2], 16) / 255 + 0.55 for at in (1, 3, 5))
    return red, green, blue


def _stretch_hits(axes: Any, plot: TimelinePlot) -> list[Hit]:
    found = []
    for row, lane in enumerate(plot.lanes):
        numbers = [f" {number}" for number in lane.numbers] or [""] * len(lane.stretches)
        for (begin, end, phase), number in zip(lane.stretches, numbers, strict=True):
            left, top = place(axes, begin, row - 0.33)
            right, bottom = place(axes, end, row + 0.33)
            text = f"{lane.name}, {phase}{number}: {begin:.4g} to {end:.4g}, {end - begin:.3g} long ({plot.x_label})"
            found.append(Hit(left, top, max(right - left, THINNEST_HIT), bottom - top, text))
    return found
