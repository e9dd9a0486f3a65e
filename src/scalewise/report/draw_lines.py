"""Lines over a common axis: intervals as bars or bands, names at the lines' ends, warm-up shaded."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log10
from typing import Any

from scalewise.report.canvas import Hit, place, text_width
from scalewise.report.document import Lines, Series
from scalewise.report.legend import LETTER_POINTS, LONGEST_LABEL, LONGEST_NAME, elided, legend_points, paint_legend
from scalewise.report.palette import FAINT, GREY, INK, MARKERS, PAPER, SERIES, SHADE, colours_of

NAME_SIZE = 7.5
WIDEST_NAME = 0.36  # of the figure: longer names at the lines' ends would leave too little for the lines
MOST_NAMED = 7
MANY_POINTS = 18  # from here on markers hide the line, and intervals are a band
HIT_POINTS = 9.0
PATTERNS: dict[str, Any] = {
    "measured": "-",
    "emulated": (0, (4, 2)),
    "oversubscribed": "-",
    "predicted": (0, (4, 2)),
    "model": (0, (1, 1.6)),
    "ideal": "-",
}


def lines_height(plot: Lines, width_points: float) -> float:
    """In points: flatter the wider it is."""
    names = list(dict.fromkeys(one.name for one in plot.series))
    return min(0.62 * width_points, 165.0) + (legend_points(names, width_points) if _above(names, width_points) else 0)


def _above(names: Sequence[str], width_points: float) -> bool:
    """Whether the names are too many or too long to stand at the lines' ends."""
    longest = max((len(elided(name)) for name in names), default=0) * LETTER_POINTS
    return len(names) > MOST_NAMED or longest > WIDEST_NAME * width_points


def paint_lines(figure: Any, axes: Any, plot: Lines) -> Callable[[], list[Hit]]:
    """Draws them; the hits are the points."""
    _scales(axes, plot)
    named = [one.name for one in plot.series if one.style != "ideal"]
    colours = {**colours_of(named), **{one.name: GREY for one in plot.series if one.style == "ideal"}}
    markers = _markers(plot)
    for span in plot.spans:
        axes.axvspan(span.begin, span.end, color=SHADE, linewidth=0, zorder=0)
        axes.annotate(span.label, (span.begin, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(0, 1.5),
                      textcoords="offset points", ha="left", va="bottom", fontsize=7, color=GREY)  # fmt: skip
    for one in plot.series:
        _paint_series(axes, one, colours[one.name], markers.get(one.name, ""))
    _limits(axes, plot)
    axes.set_xlabel(elided(plot.x_label, LONGEST_LABEL))
    axes.set_ylabel(elided(plot.y_label, LONGEST_NAME))
    axes.grid(axis="y")
    _names(figure, axes, plot, colours)
    return lambda: [hit for one in plot.series for hit in _hits(axes, one, plot)]


def _scales(axes: Any, plot: Lines) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain = FuncFormatter(lambda value, _: _short(value))
    for axis, logarithmic in ((axes.xaxis, plot.log_x), (axes.yaxis, plot.log_y)):
        if logarithmic:
            axes.set_xscale("log") if axis is axes.xaxis else axes.set_yscale("log")
            axis.set_major_formatter(plain)
            if _decades(plot, axis is axes.xaxis) < 2.5:
                axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
            axis.set_minor_formatter(NullFormatter())
    if plot.x_ticks:
        axes.set_xticks(plot.x_ticks, [f"{tick:g}" for tick in plot.x_ticks])
        axes.minorticks_off()


def _short(value: float) -> str:
    """1000000 as 1M: ticks of a small figure have room for three letters."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * scale or (value >= scale and value % scale == 0):
            return f"{value / scale:g}{letter}"
    return f"{value:g}" if value == 0 or abs(value) >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def _decades(plot: Lines, along_x: bool) -> float:
    values = [value for one in plot.series for value in (one.x if along_x else one.y) if value > 0]
    return log10(max(values) / min(values)) if values else 0.0


def _limits(axes: Any, plot: Lines) -> None:
    """A time or a speedup is read against nothing, so the axis begins there unless it is logarithmic."""
    axes.margins(x=0.03)
    if not plot.log_y:
        values = [value for one in plot.series for value in (*one.y, *one.low)]
        if values and min(values) >= 0:
            axes.set_ylim(bottom=0)
    elif (spread := axes.get_ylim())[1] / spread[0] < 10:
        axes.set_ylim(spread[0] / 1.6, spread[1] * 1.6)


def _paint_series(axes: Any, one: Series, colour: str, marker: str) -> None:
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
    axes.plot(one.x, one.y, color=colour, linestyle=PATTERNS[one.style], linewidth=0.9 if many else 1.3,
              marker=shown, markerfacecolor=PAPER if hollow else colour, markeredgecolor=colour, zorder=3,
              alpha=0.75 if hollow else 1.0)  # fmt: skip


def _names(figure: Any, axes: Any, plot: Lines, colours: dict[str, str]) -> None:
    """At the ends of the lines where they are few and short, else in a line above."""
    ends: dict[str, tuple[float, float]] = {}
    for one in plot.series:
        points = [point for point in zip(one.x, one.y, strict=True) if point[1] == point[1]]
        if points and (one.name not in ends or points[-1][0] >= ends[one.name][0]):
            ends[one.name] = points[-1]
    if len(ends) < 2 and not any(one.style in ("model", "ideal") for one in plot.series):
        return
    if _above(list(ends), float(figure.bbox.width)):
        _legend(figure, plot, colours)
        return
    widest = max(text_width(figure, elided(name), NAME_SIZE) for name in ends)
    figure.get_layout_engine().set(rect=(0, 0, 1 - (widest + 5) / figure.bbox.width, 1))
    figure.draw_without_rendering()
    wished = {name: float(axes.transData.transform(end)[1]) for name, end in ends.items()}
    for name, height in _apart(wished, axes.bbox.y0, figure.bbox.height - 5).items():
        across = axes.transAxes.inverted().transform((0, height))[1]
        end = axes.transAxes.inverted().transform(axes.transData.transform(ends[name]))
        beyond = 1 + 4 / axes.bbox.width
        axes.text(beyond, across, elided(name), transform=axes.transAxes, color=_dark(colours[name]), va="center",
                  ha="left", fontsize=NAME_SIZE, clip_on=False, in_layout=False)  # fmt: skip
        if end[0] < 0.97 or abs(end[1] - across) * axes.bbox.height > 3:
            axes.plot([end[0], beyond], [end[1], across], color=FAINT, linewidth=0.5, transform=axes.transAxes,
                      clip_on=False, zorder=0, in_layout=False)  # fmt: skip


def _dark(colour: str) -> str:
    return INK if colour == GREY else colour


def _apart(heights: dict[str, float], lowest: float, highest: float, least: float = 9.0) -> dict[str, float]:
    """The same heights, moved so far that no two names overlap and none leaves the figure; the order is kept."""
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


def _legend(figure: Any, plot: Lines, colours: dict[str, str]) -> None:
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


def _markers(plot: Lines) -> dict[str, str]:
    """One for each name that is drawn with markers."""
    pointed = [one for one in plot.series if one.style not in ("ideal", "model") and len(one.x) <= MANY_POINTS]
    named = dict.fromkeys(one.name for one in pointed)
    # From the seventh on colours come again, with another marker each.
    return {name: MARKERS[(index + index // len(SERIES)) % len(MARKERS)] for index, name in enumerate(named)}


def _hits(axes: Any, one: Series, plot: Lines) -> list[Hit]:
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
