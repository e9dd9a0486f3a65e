"""Draws how well unseen scripts were foreseen: the error over ranks, and how often intervals hold what they claim."""

from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from statistics import fmean, median

from bench.cluster_plots import CLAIMED, WIDTH, write_figures
from bench.unseen_judge import Point, points_in
from scalewise.analysis.estimate import Estimate, normal_quantile
from scalewise.predict.prediction import QUANTILE
from scalewise.report.document import Figure, LinePlot, PlotSeries

Pairs = Sequence[tuple[int, Estimate, Estimate]]  # ranks, predicted, measured


def plotted(place: Path, folder: Path) -> dict[str, object]:
    """Writes both plots of the set's points as SVG."""
    ways = dict(_ways(points_in(place)))
    figures = {"unseen-errors": errors_by_ranks(ways), "unseen-coverage": coverage_by_claim(ways)}
    written = [str(path) for path in write_figures(folder, figures)]
    print("\n".join(written))
    return {"plots": written}


def _ways(points: Sequence[Point]) -> Iterator[tuple[str, Pairs]]:
    yield "nothing checked", [(one.ranks, one.predicted, one.measured) for one in points]
    after = [(one.ranks, one.checked, one.others) for one in points if one.checked and one.others]
    if after:
        yield "after a check", [(ranks, told, seen) for ranks, told, seen in after if told and seen]


def errors_by_ranks(ways: Mapping[str, Pairs]) -> Figure:
    """The median and the largest error of each way by number of ranks."""
    series = []
    for way, pairs in ways.items():
        counts = sorted({ranks for ranks, _, _ in pairs})
        errors = {count: [abs(told.value / seen.value - 1) for ranks, told, seen in pairs if ranks == count]
                  for count in counts}  # fmt: skip
        for what, of in (("median", median), ("largest", max)):
            values = tuple(100 * of(errors[count]) for count in counts)
            series.append(PlotSeries(f"{way}, {what}", tuple(map(float, counts)), values))
    ticks = tuple(sorted({one for each in series for one in each.x}))
    plot = LinePlot("ranks", "error of the step, %", tuple(series), log_x=True, x_ticks=ticks)
    return Figure("unseen-errors", "Error over ranks", "", plot, WIDTH)


def coverage_by_claim(ways: Mapping[str, Pairs]) -> Figure:
    """The share of measured steps inside the interval, over the share that the interval claims."""
    series = []
    for way, pairs in ways.items():
        off = [
            abs(log(seen.value / told.value)) / (log(told.high / told.low) / 2 / QUANTILE) for _, told, seen in pairs
        ]
        shares = tuple(100 * fmean(one <= normal_quantile(level) for one in off) for level in CLAIMED)
        series.append(PlotSeries(way, tuple(100 * level for level in CLAIMED), shares))
    ends = (100 * CLAIMED[0], 100 * CLAIMED[-1])
    series.append(PlotSeries("as claimed", ends, ends, style="ideal"))
    plot = LinePlot("claimed, %", "seen inside, %", tuple(series))
    return Figure("unseen-coverage", "Claimed and seen coverage", "", plot, WIDTH)
