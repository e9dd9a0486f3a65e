"""Draws how good predictions of clusters are: the error over GPUs, and how often intervals hold what they claim."""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Protocol

from scalewise.analysis.estimate import normal_quantile
from scalewise.predict.cluster_table import MeasuredPlacement
from scalewise.predict.prediction import QUANTILE
from scalewise.report.document import Figure, LinePlot, PlotSeries
from scalewise.report.draw import draw

CLAIMED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
WIDTH = 0.62  # of the text
PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'


class Judged(Protocol):
    """A prediction beside what was measured."""

    @property
    def way(self) -> str: ...
    @property
    def row(self) -> MeasuredPlacement: ...
    @property
    def error(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def write_plots(folder: Path, found: Sequence[Judged]) -> Iterator[Path]:
    """Writes both plots of these predictions as SVG."""
    return write_figures(folder, {"cluster-errors": errors_figure(found), "cluster-coverage": coverage_figure(found)})


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> Iterator[Path]:
    """Writes each figure as SVG on white paper, under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        svg = draw(figure).svg
        begin = svg.index(">") + 1
        path = folder / f"{name}.svg"
        path.write_text(svg[:begin] + PAPER + svg[begin:], encoding="utf-8")
        yield path


def errors_figure(found: Sequence[Judged]) -> Figure:
    """The mean error of each way by number of GPUs."""
    series = []
    for way in dict.fromkeys(one.way for one in found):
        own = [one for one in found if one.way == way]
        gpus = sorted({one.row.placement.gpus for one in own})
        means = [
            100 * fmean(abs(exp(one.error) - 1) for one in own if one.row.placement.gpus == count) for count in gpus
        ]
        series.append(PlotSeries(way, tuple(map(float, gpus)), tuple(means)))
    ticks = tuple(sorted({one for series_of in series for one in series_of.x}))
    shown = ticks if len(ticks) <= 8 else tuple(one for one in ticks if log(one, 2).is_integer())
    plot = LinePlot("GPUs", "mean error of the step, %", tuple(series), log_x=True, x_ticks=shown)
    return Figure("cluster-errors", "Error over GPUs", "", plot, WIDTH)


def coverage_figure(found: Sequence[Judged]) -> Figure:
    """The share of measured steps inside the interval, over the share that the interval claims."""
    series = []
    for way in dict.fromkeys(one.way for one in found if one.low == one.low):
        own = [one for one in found if one.way == way]
        off = [abs(one.error) / (log(one.high / one.low) / 2 / QUANTILE) for one in own]
        seen = [100 * fmean(distance <= normal_quantile(level) for distance in off) for level in CLAIMED]
        series.append(PlotSeries(way, tuple(100 * level for level in CLAIMED), tuple(seen)))
    ends = (100 * CLAIMED[0], 100 * CLAIMED[-1])
    series.append(PlotSeries("as claimed", ends, ends, style="ideal"))
    plot = LinePlot("claimed, %", "seen inside, %", tuple(series))
    return Figure("cluster-coverage", "Claimed and seen coverage", "", plot, WIDTH)
