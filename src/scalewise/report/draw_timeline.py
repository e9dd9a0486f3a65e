"""Who worked when: one lane a device, a colour a phase."""

from collections.abc import Callable
from typing import Any

from scalewise.report.canvas import Hit, place
from scalewise.report.document import Timeline
from scalewise.report.legend import LONGEST_LABEL, bar_name, elided, paint_legend
from scalewise.report.palette import SHADE, colours_of

LANE_POINTS = 15.0
THINNEST_HIT = 2.0


def timeline_height(plot: Timeline, scale: float) -> float:
    """In points."""
    return max(2, len(plot.lanes)) * LANE_POINTS * max(scale, 0.75) + 46


def paint_timeline(figure: Any, axes: Any, plot: Timeline) -> Callable[[], list[Hit]]:
    """First lane on top; a lane's shade is where its device waits."""
    phases = list(dict.fromkeys(phase for lane in plot.lanes for _, _, phase in lane.stretches))
    colours = colours_of(phases)
    end = max((stop for lane in plot.lanes for _, stop, _ in lane.stretches), default=1.0)
    for row, lane in enumerate(plot.lanes):
        axes.barh(row, end, height=0.66, color=SHADE, linewidth=0, zorder=0)
        for phase in phases:
            pieces = [(begin, stop - begin) for begin, stop, name in lane.stretches if name == phase]
            axes.broken_barh(pieces, (row - 0.33, 0.66), facecolors=colours[phase], linewidth=0)
    axes.set_yticks(range(len(plot.lanes)), [bar_name(lane.name) for lane in plot.lanes])
    axes.set_ylim(len(plot.lanes) - 0.4, -0.6)
    axes.set_xlim(0, end)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(elided(plot.x_label, LONGEST_LABEL))
    _legend(figure, [*phases, "waits"], {**colours, "waits": SHADE})
    return lambda: _hits(axes, plot)


def _legend(figure: Any, names: list[str], colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    paint_legend(figure, [Patch(facecolor=colours[name], edgecolor="none") for name in names], names)


def _hits(axes: Any, plot: Timeline) -> list[Hit]:
    found = []
    for row, lane in enumerate(plot.lanes):
        for begin, end, phase in lane.stretches:
            left, top = place(axes, begin, row - 0.33)
            right, bottom = place(axes, end, row + 0.33)
            text = f"{lane.name}, {phase}: {begin:.4g} to {end:.4g}, {end - begin:.3g} long ({plot.x_label})"
            found.append(Hit(left, top, max(right - left, THINNEST_HIT), bottom - top, text))
    return found
