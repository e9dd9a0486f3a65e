"""Draws lines over a common axis: intervals as bars or bands, names at the lines' ends, warm-up shaded."""

from collections.abc import Callable
from itertools import pairwise
from math import floor, inf, log10
from typing import Any

from scalewise.report.canvas import (
    GREY,
    INK,
    LETTER_POINTS,
    LONGEST_LABEL,
    LONGEST_NAME,
    MARKERS,
    PAPER,
    SERIES,
    SHADE,
    Hit,
    colours_of,
    elided,
    legend_points,
    paint_legend,
    place,
    text_width,
)
from scalewise.report.document import LinePlot, PlotSeries

NAME_SIZE = 7.5
WIDEST_NAME = 0.36  # share of the figure: longer names at the lines' ends leave too little room for the lines
MOST_NAMED = 7
EARLY = 0.9  # share of the axis: if a line ends before it, names are above the figure
FAR_ABOVE = 1.8  # an ideal or a model that reaches so many times higher than the data is cut off
CLOSE = 0.01  # share of the range: lines that are no farther apart lie on each other
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MANY_POINTS = 18  # with more points, markers would hide the line, and intervals are drawn as a band
HIT_POINTS = 9.0
AXIS_SHARE = 0.55  # share of a figure's height that the vertical axis always has
PATTERNS: dict[str, Any] = {
    "measured": "-",
    "emulated": (0, (4, 2)),
    "oversubscribed": "-",
    "predicted": (0, (4, 2)),
    "model": (0, (1, 1.6)),
    "ideal": "-",
}


def lines_height(plot: LinePlot, width_points: float) -> float:
    """Returns the height in points: the wider the figure, the flatter it is."""
    names = list(dict.fromkeys(one.name for one in plot.series))
    return min(0.62 * width_points, 165.0) + (legend_points(names, width_points) if _above(plot, width_points) else 0)


def _above(plot: LinePlot, width_points: float) -> bool:
    """Returns True if names do not fit at the lines' ends: too many, too long, or a line ends far from the edge."""
    names = list(dict.fromkeys(one.name for one in plot.series))
    longest = max((len(elided(name)) for name in names), default=0) * LETTER_POINTS
    return len(names) > MOST_NAMED or longest > WIDEST_NAME * width_points or _ends_early(plot)


def _ends_early(plot: LinePlot) -> bool:
    """Returns True if a line ends so far from the right edge that a leader to its name would look like data."""
    ends: dict[str, float] = {}
    for one in plot.series:
        ends[one.name] = max([ends.get(one.name, -inf), *one.x])
    known = [end for end in ends.values() if end > -inf]
    begin = min((x for one in plot.series for x in one.x), default=0.0)
    if not known or max(known) <= begin:
        return False
    if plot.log_x and begin > 0:
        return any(log10(end / begin) < EARLY * log10(max(known) / begin) for end in known)
    return any(end - begin < EARLY * (max(known) - begin) for end in known)


def paint_lines(figure: Any, axes: Any, plot: LinePlot) -> Callable[[], list[Hit]]:
    """Draws the lines, and returns the function that gives their hits, which are the points."""
    named = [one.name for one in plot.series if one.style != "ideal"]
    colours = {**colours_of(named), **{one.name: GREY for one in plot.series if one.style == "ideal"}}
    markers, weights = _markers(plot), _weights(plot)
    for span in plot.spans:
        axes.axvspan(span.begin, span.end, color=SHADE, linewidth=0, zorder=0)
        axes.annotate(span.label, (span.begin, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(0, 1.5),
                      textcoords="offset points", ha="left", va="bottom", fontsize=7, color=GREY)  # fmt: skip
    for one, weight in zip(plot.series, weights, strict=True):
        law = any(other.style == "model" for other in plot.series)
        _paint_series(axes, one, colours[one.name], markers.get(one.name, ""), 0.4 if law and _marked(one) else weight)
    x_label, y_label = _scales(axes, plot)
    top = _limits(axes, plot)
    axes.set_xlabel(elided(x_label, LONGEST_LABEL))
    axes.set_ylabel(in_height(figure, elided(y_label, LONGEST_NAME)))
    axes.grid(axis="y")
    _names(figure, axes, plot, colours, top)
    return lambda: [hit for one in plot.series for hit in _hits(axes, one, plot)]


def in_height(figure: Any, label: str) -> str:
    """Returns the label of the vertical axis, in two lines if it is longer than the axis of a low figure."""
    spaces = [at for at, letter in enumerate(label) if letter == " "]
    if not spaces or text_width(figure, label, 8) <= AXIS_SHARE * figure.bbox.height:
        return label
    middle = min(spaces, key=lambda at: abs(at - len(label) / 2))
    return f"{label[:middle]}\n{label[middle + 1 :]}"


def _scales(axes: Any, plot: LinePlot) -> tuple[str, str]:
    """Sets scales and ticks, and returns both axes' labels, with the power of ten that very small numbers have."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    labels = []
    for axis, logarithmic, label in (
        (axes.xaxis, plot.log_x, plot.x_label), (axes.yaxis, plot.log_y, plot.y_label)
    ):  # fmt: skip
        power = 0 if logarithmic else _small_power(plot, axis is axes.xaxis)
        labels.append(f"{label}, in 10{str(power).translate(RAISED)}" if power else label)
        if logarithmic:
            axes.set_xscale("log") if axis is axes.xaxis else axes.set_yscale("log")
            if _decades(plot, axis is axes.xaxis) < 2.5:
                axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _, scale=10.0**power: _short(value / scale)))
    if plot.x_ticks:
        axes.set_xticks(plot.x_ticks, [_short(tick) for tick in plot.x_ticks])
        axes.minorticks_off()
    return labels[0], labels[1]


def _small_power(plot: LinePlot, along_x: bool) -> int:
    """Returns the power of ten of the largest value; 0 unless all values are below a thousandth."""
    most = max(
        (abs(value) for one in plot.series for value in (one.x if along_x else one.y) if value == value), default=0
    )
    return floor(log10(most)) if 0 < most < 1e-3 else 0


def _short(value: float) -> str:
    """Returns 1000000 as 1M: ticks of a small figure have room for few letters."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * scale or (abs(value) >= scale and value % scale == 0):
            return f"{value / scale:g}{letter}"
    if value == 0 or abs(value) >= 0.01:
        return f"{value:g}"
    digits, _, power = f"{value:.0e}".partition("e")
    raised = f"10{str(int(power)).translate(RAISED)}"
    return raised if digits == "1" else f"{digits}·{raised}"


def _decades(plot: LinePlot, along_x: bool) -> float:
    values = [value for one in plot.series for value in (one.x if along_x else one.y) if value > 0]
    return log10(max(values) / min(values)) if values else 0.0


def _limits(axes: Any, plot: LinePlot) -> float | None:
    """Begins the axis at zero unless it is logarithmic: a time or a speedup is compared with zero.

    Returns the upper limit at which an ideal or a model is cut off, if it would leave the data only a corner of the
    figure.
    """
    axes.margins(x=0.03)
    if plot.log_y:
        if (spread := axes.get_ylim())[1] / spread[0] < 10:
            axes.set_ylim(spread[0] / 1.6, spread[1] * 1.6)
        return None
    values = [value for one in plot.series for value in (*one.y, *one.low) if value == value]
    if values and min(values) >= 0:
        axes.set_ylim(bottom=0)
    data = [
        value
        for one in plot.series
        if one.style not in ("ideal", "model")
        for value in (*one.y, *one.high)
        if value == value
    ]
    if data and max(data) > 0 and max(values) > FAR_ABOVE * max(data):
        top = 1.3 * max(data)
        axes.set_ylim(top=top)
        return top
    return None


def _marked(one: PlotSeries) -> bool:
    """Returns True if the line's points are drawn with markers, as data with few points are."""
    return one.style not in ("ideal", "model") and len(one.x) <= MANY_POINTS


def _weights(plot: LinePlot) -> list[float]:
    """Returns the width of each line: of lines that lie on each other, the lower one is wider, so that all are seen."""
    reach = [value for one in plot.series for value in one.y if value == value]
    close = CLOSE * (max(reach) - min(reach)) if reach else 0.0
    weights = []
    for index, one in enumerate(plot.series):
        above = [other for other in plot.series[index + 1 :] if other.x == one.x and other.name != one.name]
        covered = sum(all(abs(a - b) <= close for a, b in zip(one.y, other.y, strict=True)) for other in above)
        weights.append(1.0 + 1.6 * covered)
    return weights


def _paint_series(axes: Any, one: PlotSeries, colour: str, marker: str, weight: float) -> None:
    if one.style == "ideal":
        axes.plot(one.x, one.y, color=GREY, linewidth=0.7, zorder=1)
        return
    many = len(one.x) > MANY_POINTS
    if one.low and one.high:
        if many:
            axes.fill_between(one.x, one.low, one.high, color=colour, alpha=0.18, linewidth=0, zorder=1)
        else:
            reach = ([max(0.0, y - low) for y, low in zip(one.y, one.low, strict=True)],
                     [max(0.0, high - y) for y, high in zip(one.y, one.high, strict=True)])  # fmt: skip
            axes.errorbar(one.x, one.y, yerr=reach, fmt="none", ecolor=colour, elinewidth=0.8, capsize=1.8, zorder=2)
    hollow = one.style in ("oversubscribed", "predicted")
    shown = "" if one.style == "model" or many else marker
    axes.plot(one.x, one.y, color=colour, linestyle=PATTERNS[one.style], linewidth=(0.9 if many else 1.3) * weight,
              marker=shown, markerfacecolor=PAPER if hollow else colour, markeredgecolor=colour, zorder=3,
              alpha=0.75 if hollow else 1.0)  # fmt: skip


def _names(figure: Any, axes: Any, plot: LinePlot, colours: dict[str, str], top: float | None) -> None:
    """Writes names at the ends of the lines if they are few and short, else in a row above; cut lines at their cut."""
    ends: dict[str, tuple[float, float]] = {}
    for one in plot.series:
        points = [point for point in zip(one.x, one.y, strict=True) if point[1] == point[1]]
        if points and (one.name not in ends or points[-1][0] >= ends[one.name][0]):
            ends[one.name] = points[-1]
    if len(ends) < 2 and not any(one.style in ("model", "ideal") for one in plot.series):
        return
    if _above(plot, float(figure.bbox.width)):
        _legend(figure, plot, colours)
        return
    for one in plot.series:
        if top is not None and one.name in ends and ends[one.name][1] > top:
            del ends[one.name]
            _name_at_cut(axes, one, top, _dark(colours[one.name]))
    widest = max((text_width(figure, elided(name), NAME_SIZE) for name in ends), default=0.0)
    figure.get_layout_engine().set(rect=(0, 0, 1 - (widest + 5) / figure.bbox.width, 1))
    figure.draw_without_rendering()
    wished = {name: float(axes.transData.transform(end)[1]) for name, end in ends.items()}
    for name, height in _apart(wished, axes.bbox.y0, figure.bbox.height - 5).items():
        across = axes.transAxes.inverted().transform((0, height))[1]
        end = axes.transAxes.inverted().transform(axes.transData.transform(ends[name]))
        axes.text(1 + 5 / axes.bbox.width, across, elided(name), transform=axes.transAxes, color=_dark(colours[name]),
                  va="center", ha="left", fontsize=NAME_SIZE, clip_on=False, in_layout=False)  # fmt: skip
        if abs(end[1] - across) * axes.bbox.height > 3:  # the name had to move: a short line connects it
            axes.plot([1, 1 + 4 / axes.bbox.width], [end[1], across], color=GREY, linewidth=0.4,
                      transform=axes.transAxes, clip_on=False, zorder=0, in_layout=False)  # fmt: skip


def _name_at_cut(axes: Any, one: PlotSeries, top: float, colour: str) -> None:
    """Writes the name at the point where the line leaves the figure, with an arrow and the number that it reaches."""
    crossing = one.x[-1]
    for (x0, y0), (x1, y1) in pairwise(zip(one.x, one.y, strict=True)):
        if y0 <= top < y1:
            crossing = x0 + (x1 - x0) * (top - y0) / (y1 - y0)
            break
    late = axes.transAxes.inverted().transform(axes.transData.transform((crossing, top)))[0] > 0.6
    text = f"{elided(one.name)} ↑ {one.y[-1]:.3g}"
    axes.annotate(text, (crossing, top), xytext=(-4 if late else 4, -1), textcoords="offset points",
                  ha="right" if late else "left", va="top", fontsize=NAME_SIZE, color=colour)  # fmt: skip


def _dark(colour: str) -> str:
    return INK if colour == GREY else colour


def _apart(heights: dict[str, float], lowest: float, highest: float, least: float = 9.0) -> dict[str, float]:
    """Returns the heights, moved so that no two names overlap and none leaves the figure; their order is kept."""
    order = sorted(heights, key=lambda name: heights[name])
    moved = dict(heights)
    for _ in range(200):
        close = [(a, b) for a, b in pairwise(order) if moved[b] - moved[a] < least - 1e-6]
        if not close:
            break
        for a, b in close:
            lack = (least - (moved[b] - moved[a])) / 2
            moved[a] -= lack
            moved[b] += lack
    for number, name in enumerate(reversed(order)):
        moved[name] = min(moved[name], highest - number * least)
    for number, name in enumerate(order):
        moved[name] = max(moved[name], lowest + number * least)
    return moved


def _legend(figure: Any, plot: LinePlot, colours: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    styles = {one.name: one.style for one in reversed(plot.series)}
    order = list(dict.fromkeys(one.name for one in plot.series))
    markers = _markers(plot)
    handles = [
        Line2D([], [], color=colours[name], linestyle=PATTERNS[styles[name]], marker=markers.get(name, ""),
               linewidth=0.7 if styles[name] == "ideal" else 1.3)
        for name in order
    ]  # fmt: skip
    paint_legend(figure, handles, order)


def _markers(plot: LinePlot) -> dict[str, str]:
    """Returns one marker for each name that is drawn with markers."""
    named = dict.fromkeys(one.name for one in plot.series if _marked(one))
    # From the seventh name on colours repeat, with a different marker each.
    return {name: MARKERS[(index + index // len(SERIES)) % len(MARKERS)] for index, name in enumerate(named)}


def _hits(axes: Any, one: PlotSeries, plot: LinePlot) -> list[Hit]:
    found = []
    for index, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        if one.style == "ideal" or y != y:
            continue
        across, down = place(axes, x, y)
        interval = f" [{one.low[index]:.3g}, {one.high[index]:.3g}]" if one.low and one.high else ""
        word = {"measured": "", "model": ", predicted"}.get(one.style, f", {one.style}")
        text = f"{one.name}: {y:.4g}{interval} ({plot.y_label}) at {x:g} ({plot.x_label}){word}"
        found.append(Hit(across - HIT_POINTS / 2, down - HIT_POINTS / 2, HIT_POINTS, HIT_POINTS, text))
    return found
