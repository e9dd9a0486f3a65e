"""Draws a figure's plot as SVG, in the style that all figures share."""

from functools import lru_cache

from scalewise.report.canvas import Drawing, drawn
from scalewise.report.document import BarPlot, Figure, LinePlot, StripPlot
from scalewise.report.draw_bars import bars_height, paint_bars
from scalewise.report.draw_lines import lines_height, paint_lines
from scalewise.report.draw_strips import paint_strips, strips_height
from scalewise.report.draw_timeline import paint_timeline, timeline_height

TEXT_POINTS = 482.0  # default width of the text: A4 less 20 mm on both sides
GUTTER_POINTS = 14.0


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
