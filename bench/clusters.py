"""How well larger placements of real clusters are foreseen from a table of public measurements, by several ways.

    python -m bench clusters --from TABLE.csv [--hold-back RULE] [--link CLUSTER=LINK] [--plots FOLDER]

Rows that the rule holds back are predicted from the others: `nodes>2` and the like, or `each`, one placement at a time.
The ways: *fitted*, the law of `scalewise extrapolate`; *named*, the same law when only one node was measured and the
catalogue says what joins the nodes; *carried on*, the step of the largest measured placement; *no communication*, the
computing of one GPU. Columns of the table: `predict/cluster_table.py`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log, nan
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from bench.cluster_plots import write_plots
from scalewise.errors import BadRequest
from scalewise.jobs.extrapolate import link_priors
from scalewise.predict.catalogue import named_link
from scalewise.predict.cluster_fit import ClusterFit, fit_cluster
from scalewise.predict.cluster_table import MeasuredPlacement, rows_and_problems
from scalewise.predict.placement import Placement

FITTED, NAMED, CARRIED, ALONE = "fitted", "named", "carried on", "no communication"
WAYS = (FITTED, NAMED, CARRIED, ALONE)
# Part of a cluster's name -> its links, where the table's source says what they are; --link adds others.
LINKS = {"t4x4": "pcie3-host+ethernet-50g"}
# Counts from the architectures, for tables without a column `parameters`.
PARAMETERS = {"bert": 110e6, "cifar10": 11.2e6, "imagenet": 25.6e6, "yolov3": 62e6}
RULE = re.compile(r"(nodes|gpus)>(\d+)")
GOAL_FITTED, GOAL_NAMED, GOAL_INSIDE = 0.10, 0.20, (0.85, 0.95)


@dataclass(frozen=True)
class Foreseen:
    """One row that was held back, and what one way says of it."""

    rule: str
    cluster: str
    way: str
    row: MeasuredPlacement
    seconds: float
    low: float = nan  # of the 90 % interval; nan: the way has none
    high: float = nan

    @property
    def error(self) -> float:
        """The logarithm of predicted over measured."""
        return log(self.seconds / self.row.step_seconds)

    @property
    def inside(self) -> bool:
        """Tells whether the measured step lies inside the interval."""
        return self.low <= self.row.step_seconds <= self.high


def run(
    quick: bool, cuda: bool, folder: Path, hold_back: str | None, links: Sequence[str], plots: Path | None
) -> dict[str, object]:
    """Prints a table for each rule and cluster, writes the plots, and gives the numbers back."""
    readable, problems = rows_and_problems(folder)
    for problem in problems:
        print(f"left out: {problem}")
    if not readable:
        raise BadRequest(f"{folder} has no row that can be read.")
    rows = tuple(row if row.parameters else replace(row, parameters=PARAMETERS.get(row.model)) for row in readable)
    named = LINKS | dict(_named(text) for text in links)
    found: list[Foreseen] = []
    for rule in [hold_back] if hold_back else list(_rules(rows)):
        found += foreseen(rows, rule, named)
    told: dict[str, object] = {}
    for rule in dict.fromkeys(one.rule for one in found):
        for cluster in dict.fromkeys(one.cluster for one in found):
            own = [one for one in found if (one.rule, one.cluster) == (rule, cluster)]
            told[f"{cluster}, held back: {rule}"] = _print(own, rule, cluster) if own else None
    if plots is not None:
        for path in write_plots(plots, [one for one in found if one.rule == found[0].rule]):
            print(f"written: {path}")
    return told


def foreseen(rows: Sequence[MeasuredPlacement], rule: str, named: dict[str, str]) -> list[Foreseen]:
    """What every way says of the rows that the rule holds back, cluster by cluster."""
    found: list[Foreseen] = []
    for cluster in dict.fromkeys(row.cluster for row in rows):
        own = [row for row in rows if row.cluster == cluster]
        link = next((text for part, text in named.items() if part in cluster), None)
        for kept, held in _splits(own, rule):
            if kept and held:
                found += _all_ways(cluster, kept, held, rule, link)
    return found


def _all_ways(
    cluster: str, kept: list[MeasuredPlacement], held: list[MeasuredPlacement], rule: str, link: str | None
) -> Iterator[Foreseen]:
    fit = fit_cluster(kept)
    across = any(row.placement.nodes > 1 for row in kept)
    if across or all(row.placement.nodes == 1 for row in held):  # between nodes nothing was measured: there is no fit
        yield from _by_fit(FITTED, fit, held, rule)
    one_node = [row for row in kept if row.placement.nodes == 1]
    if link is not None and any(row.placement.nodes > 1 for row in held):
        priors = link_priors(named_link(link, max(row.placement.busiest for row in kept), 1))
        yield from _by_fit(NAMED, fit_cluster(one_node, priors), held, rule)
    for row in held:
        carried = _at_batch(kept, row, lambda one: (one.placement.gpus, one.placement.nodes))
        alone = _at_batch([one for one in kept if one.placement.gpus == 1], row, lambda one: (1, 1), computing=True)
        for way, seconds in ((CARRIED, carried), (ALONE, alone)):
            if seconds is not None:
                yield Foreseen(rule, cluster, way, row, seconds)


def _by_fit(way: str, fit: ClusterFit, held: Sequence[MeasuredPlacement], rule: str) -> Iterator[Foreseen]:
    for row in held:
        if row.model in fit.laws:
            [one] = fit.predict(row.model, row.local_batch, [row.placement])
            yield Foreseen(rule, row.cluster, way, row, one.step.value, one.step.low, one.step.high)


def _at_batch(
    kept: Sequence[MeasuredPlacement],
    row: MeasuredPlacement,
    size: Callable[[MeasuredPlacement], tuple[int, int]],
    computing: bool = False,
) -> float | None:
    """The step of the largest kept placement with that row's batch; between two batches on logarithmic axes."""
    own = [one for one in kept if one.model == row.model]
    if not own:
        return None
    largest = max(size(one) for one in own)
    steps: dict[float, list[float]] = defaultdict(list)
    for one in own:
        if size(one) == largest:
            steps[one.local_batch].append(one.step_seconds - (one.exposed_seconds or 0.0) * computing)
    batches = np.array(sorted(steps))
    known = np.log([median(steps[batch]) for batch in batches])
    return exp(float(np.interp(log(row.local_batch), np.log(batches), known)))


def _splits(
    rows: Sequence[MeasuredPlacement], rule: str
) -> Iterator[tuple[list[MeasuredPlacement], list[MeasuredPlacement]]]:
    """The rows to learn from and those to predict; several times where one placement after another is held back."""
    found = RULE.fullmatch(rule.replace(" ", ""))
    if found:
        most = int(found[2])

        def size(row: MeasuredPlacement) -> int:
            return row.placement.nodes if found[1] == "nodes" else row.placement.gpus

        yield [row for row in rows if size(row) <= most], [row for row in rows if size(row) > most]
    elif rule == "each":
        several: list[Placement] = list(dict.fromkeys(row.placement for row in rows if row.placement.gpus > 1))
        for placement in several:
            kept = [row for row in rows if row.placement != placement]
            yield kept, [row for row in rows if row.placement == placement]
    else:
        raise BadRequest(f"--hold-back {rule}: no such rule.", "Write nodes>2, gpus>4 or each.")


def _rules(rows: Sequence[MeasuredPlacement]) -> Iterator[str]:
    """What can be held back of such a table: more than two nodes; or else more than one, half of the GPUs, or each."""
    if max(row.placement.nodes for row in rows) > 2:
        yield "nodes>2"
        return
    yield f"gpus>{max(row.placement.gpus for row in rows) // 2}"
    yield "nodes>1"
    yield "each"


def _named(text: str) -> tuple[str, str]:
    cluster, _, link = text.partition("=")
    if not link:
        raise BadRequest(f"--link {text}: of which cluster?", "Write --link CLUSTER=LINK, such as dgx=dgx-a100.")
    return cluster, link


def _print(found: Sequence[Foreseen], rule: str, cluster: str) -> dict[str, object]:
    rows = {id(one.row) for one in found}
    print(f"\n{cluster}: {len(rows)} rows held back ({rule}); goals: fitted {GOAL_FITTED:.0%}, named {GOAL_NAMED:.0%},")
    print(f"{GOAL_INSIDE[0]:.0%} to {GOAL_INSIDE[1]:.0%} inside the 90 % interval, no worse than carried on")
    head = ("way", "nodes", "rows", "mean error", "95 % below", "signed", "by medians", "inside", "half interval")
    lines = [head, *(line for way in WAYS for line in _lines(way, [one for one in found if one.way == way]))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    return {way: _figures([one for one in found if one.way == way]) for way in WAYS}


def _lines(way: str, found: Sequence[Foreseen]) -> Iterator[tuple[str, ...]]:
    if not found:
        yield (way, "all", "0", *["-"] * 6)
        return
    nodes = sorted({one.row.placement.nodes for one in found})
    for count in (None, *(nodes if len(nodes) > 1 and way in (FITTED, NAMED) else ())):
        own = [one for one in found if count in (None, one.row.placement.nodes)]
        told = _figures(own)
        percents = [f"{100 * told[key]:.1f} %" for key in ("mean error", "95 % below")]
        spread = [f"{100 * told[key]:.0f} %" if told[key] == told[key] else "-" for key in ("inside", "half interval")]
        signed, medians = f"{100 * told['signed']:+.1f} %", f"{100 * told['by medians']:.1f} %"
        yield (way if count is None else "", str(count or "all"), str(len(own)), *percents, signed, medians, *spread)


def _figures(found: Sequence[Foreseen]) -> dict[str, Any]:
    """The figures of one way: of rows, and of medians over the batches of one model on one number of GPUs."""
    if not found:
        return {}
    errors = [abs(exp(one.error) - 1) for one in found]
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for one in found:
        groups[one.row.model, one.row.placement.gpus].append(one.error)
    sure = [one for one in found if one.low == one.low]
    return {
        "rows": len(found),
        "mean error": fmean(errors),
        "95 % below": float(np.quantile(errors, 0.95)),
        "signed": fmean(one.error for one in found),
        "by medians": fmean(abs(exp(median(group)) - 1) for group in groups.values()),
        "inside": fmean(one.inside for one in sure) if sure else nan,
        "half interval": fmean(log(one.high / one.low) / 2 for one in sure) if sure else nan,
    }
