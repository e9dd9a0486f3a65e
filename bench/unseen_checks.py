"""How well the steps of more ranks are foreseen once fewer ranks of the same script were checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from bench.unseen_judge import Seen, checks_of, foreseen_by, step_of
from scalewise.analysis.estimate import Estimate
from scalewise.predict.probe import LinkProbe


@dataclass(frozen=True)
class Beyond:
    """One model on more ranks than were checked."""

    model: str
    checked: int  # the most ranks that were
    ranks: int
    before: Estimate
    after: Estimate
    measured: Estimate


def beyond_checks(models: Sequence[Seen], probes: Sequence[LinkProbe]) -> list[dict[str, object]]:
    """Prints a line for each pair of numbers of ranks."""
    points = [point for one in models for point in _points(one, probes)]
    found = []
    for checked, ranks in sorted({(point.checked, point.ranks) for point in points}):
        own = [point for point in points if (point.checked, point.ranks) == (checked, ranks)]
        before = [abs(point.before.value / point.measured.value - 1) for point in own]
        after = [abs(point.after.value / point.measured.value - 1) for point in own]
        inside = sum(one.after.low <= one.measured.value <= one.after.high for one in own)
        print(
            f"{ranks} ranks, checked up to {checked}, {len(own)} points: median error {100 * median(before):.1f} % "
            f"before, {100 * median(after):.1f} % after; largest {100 * max(before):.0f}, {100 * max(after):.0f} %; "
            f"{inside} inside after"
        )
        found.append({"checked": checked, "ranks": ranks, "before": before, "after": after, "inside": inside})
    return found


def _points(one: Seen, probes: Sequence[LinkProbe]) -> list[Beyond]:
    told = foreseen_by(one, probes)
    if told is None:
        return []
    checks = list(checks_of(one, told))
    counts = [ranks for ranks in told.taken if ranks > 1 and one.rounds(ranks)]
    points = []
    for checked, ranks in combinations(counts, 2):
        before = told.expected(ranks)
        after = told.expected(ranks, [check for check in checks if check.ranks <= checked])
        if before is not None and after is not None:
            found = step_of(one.rounds(ranks), told.taken[ranks].uneven)
            points.append(Beyond(one.model, checked, ranks, before[0], after[0], found))
    return points
