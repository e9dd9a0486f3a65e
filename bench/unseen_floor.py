"""How well a run foresees another run of the same script minutes apart: no prediction can be asked to do better."""

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median

import numpy as np

from bench.unseen_judge import Seen, step_of
from scalewise.records.load import Run

STOLEN = 0.02  # share of its cores that the host took from a run


def repeats(models: Sequence[Seen]) -> dict[str, object]:
    """Prints how far runs of the same script lie apart, beside the runs from which the host took cores."""
    counts = sorted({run.spec.ranks for one in models for run in one.runs.values()} - {1})
    rounds = {(one.model, ranks): one.rounds(ranks) for one in models for ranks in counts}
    off = apart(list(rounds.values()))
    found: dict[str, object] = {"pairs": len(off)}
    if off:
        found |= {"median": median(off), "90 %": float(np.quantile(off, 0.9)), "largest": max(off)}
        print(
            f"a run foresees a run of the same script minutes apart by {100 * median(off):.1f} % in the median, "
            f"{100 * float(np.quantile(off, 0.9)):.0f} % in nine of ten and {100 * max(off):.0f} % at most "
            f"({len(off)} pairs): no prediction can promise more"
        )
    stolen = {
        f"{model} on {ranks} ranks, round {number}": round(share, 3)
        for (model, ranks), runs in rounds.items()
        for number, run in enumerate(runs)
        if (share := stolen_share(run)) > STOLEN
    }
    found["stolen"] = stolen
    for text, share in sorted(stolen.items(), key=lambda one: -one[1]):
        print(f"the host took {100 * share:.1f} % of the cores' time from {text}")
    return found


def apart(rounds: Sequence[Sequence[Run]]) -> list[float]:
    """The error of the step of each run as a prediction of each later run of the same script and number of ranks."""
    steps = [[step_of([run]).value for run in runs] for runs in rounds]
    return [abs(one / later - 1) for of_one in steps for one, later in combinations(of_one, 2)]


def stolen_share(run: Run) -> float:
    """The mean share of the cores' time that the host gave to somebody else during the run."""
    known = [row.steal for row in run.samples if row.steal is not None]
    return fmean(known) if known else 0.0
