"""Draws when each device worked: one lane per device or kind of work, one colour per phase."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from scalewise.report.canvas import Hit, place, text_width
from scalewise.report.document import TimelinePlot
from scalewise.report.legend import LONGEST_LABEL, bar_name, elided, legend_points, paint_legend
from scalewise.report.palette import GREY, INK, PAPER, SHADE, colours_of

LANE_POINTS = 15.0
THINNEST_HIT = 2.0
NUMBER_SIZE = 6.5
REDUCE = "all-reduce"
HIDDEN = "all-reduce behind computing"
COMPUTING = ("forward", "backward", "optimizer")
DARK = 0.45  # lightness of a colour: letters on darker colours are light


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
            base = _base(phase)
            axes.broken_barh([(begin, stop - begin)], (row - 0.33, 0.66), facecolors=colours[base], linewidth=0)
            if base == REDUCE:
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
    _legend(figure, phases, colours, bool(cover))
    figure.draw_without_rendering()
    _paint_numbers(figure, axes, plot, colours, cover)
    return lambda: _hits(axes, plot)


def _base(phase: str) -> str:
    """Returns the phase without its number: `forward 3` is forward."""
    return re.sub(r" \d+$", "", phase)


def _phases(plot: TimelinePlot) -> list[str]:
    return list(dict.fromkeys(_base(phase) for lane in plot.lanes for _, _, phase in lane.stretches))


def _computing(plot: TimelinePlot) -> list[tuple[float, float]]:
    """Returns when the only computing lane computes; nothing if several compute or no other lane has all-reduces."""
    lanes = [lane for lane in plot.lanes if any(_base(phase) in COMPUTING for _, _, phase in lane.stretches)]
    reduces = [lane for lane in plot.lanes if any(_base(phase) == REDUCE for _, _, phase in lane.stretches)]
    if len(lanes) != 1 or not [lane for lane in reduces if lane not in lanes]:
        return []
    return [(begin, stop) for begin, stop, phase in lanes[0].stretches if _base(phase) in COMPUTING]


def _common(begin: float, stop: float, cover: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the parts of a stretch that overlap with the cover."""
    return [(max(begin, a), min(stop, b)) for a, b in cover if max(begin, a) < min(stop, b)]


def _paint_numbers(
    figure: Any, axes: Any, plot: TimelinePlot, colours: dict[str, str], cover: Sequence[tuple[float, float]]
) -> None:
    """Writes the numbers of micro-batches and buckets into the stretches that have room for them."""
    for row, lane in enumerate(plot.lanes):
        for begin, stop, phase in lane.stretches:
            base = _base(phase)
            number = phase.removeprefix(base).strip()
            room = axes.transData.transform((stop, 0))[0] - axes.transData.transform((begin, 0))[0]
            if not number or text_width(figure, number, NUMBER_SIZE) + 1 > room:
                continue
            veiled = base == REDUCE and bool(_common(begin, stop, cover))
            colour = INK if veiled or _lightness(colours[base]) > DARK else PAPER
            axes.text((begin + stop) / 2, row, number, ha="center", va="center_baseline", fontsize=NUMBER_SIZE,
                      color=colour)  # fmt: skip


def _lightness(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _legend(figure: Any, phases: Sequence[str], colours: dict[str, str], hidden: bool) -> None:
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


def _hits(axes: Any, plot: TimelinePlot) -> list[Hit]:
    found = []
    for row, lane in enumerate(plot.lanes):
        for begin, end, phase in lane.stretches:
            left, top = place(axes, begin, row - 0.33)
            right, bottom = place(axes, end, row + 0.33)
            text = f"{lane.name}, {phase}: {begin:.4g} to {end:.4g}, {end - begin:.3g} long ({plot.x_label})"
            found.append(Hit(left, top, max(right - left, THINNEST_HIT), bottom - top, text))
    return found
