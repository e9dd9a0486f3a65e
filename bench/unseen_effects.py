"""What separates a rehearsal from a run, each effect by runs of its own: medians of steps and their parts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.unseen_judge import Seen
from scalewise.analysis.series import PHASES, series
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.records.load import Run


@dataclass(frozen=True)
class Effects:
    """Median steps in seconds of one model on one number of ranks, each way of running it."""

    model: str
    ranks: int
    alone: float | None  # rehearsed by one process
    in_company: float | None  # rehearsed by as many processes as ranks: the slowest of each step
    rank_in_company: float | None  # the same, the usual step of a process
    no_messages: float | None  # real ranks that exchange nothing: the slowest of each step
    rank_without_messages: float | None  # the same, the usual step of a rank
    one_number: float | None  # real ranks that wait for each other at each bucket, but send one number
    run: float | None  # as it is
    phases_rehearsed: dict[str, float]  # seconds of each phase, mean over ranks, median over steps
    phases_run: dict[str, float]


def effects(models: Sequence[Seen]) -> list[dict[str, object]]:
    """Prints a row for every model and number of ranks of which the further runs were made."""
    found = [
        _effects(one, ranks)
        for one in models
        for ranks in sorted({run.spec.ranks for run in one.runs.values()})
        if ranks > 1 and f"measure{ranks}-no-messages" in one.runs
    ]
    if found:
        print("\nMedian steps in ms: rehearsed alone, in company (slowest and usual rank), then real ranks")
        print(f"{'model':14}{'ranks':>5}{'alone':>9}{'company':>9}{'usual':>9}{'no mess.':>9}{'usual':>9}"
              f"{'1 number':>9}{'run':>9}")  # fmt: skip
    for one in found:
        steps = (one.alone, one.in_company, one.rank_in_company, one.no_messages, one.rank_without_messages,
                 one.one_number, one.run)  # fmt: skip
        text = "".join(f"{1e3 * step:9.2f}" if step is not None else f"{'-':>9}" for step in steps)
        print(f"{one.model:14}{one.ranks:5}{text}")
    return [asdict(one) for one in found]


def _effects(one: Seen, ranks: int) -> Effects:
    rehearsal, alone = one.rehearsal(ranks), one.rehearsal(ranks, "-alone")
    quiet, number = one.runs.get(f"measure{ranks}-no-messages"), one.runs.get(f"measure{ranks}-one-number")
    rounds = one.rounds(ranks)
    runs = [_slowest(run) for run in rounds]
    return Effects(
        model=one.model,
        ranks=ranks,
        alone=_computing(alone),
        in_company=_computing(rehearsal),
        rank_in_company=_usual(one.runs.get(f"rehearse{ranks}")),
        no_messages=_slowest(quiet),
        rank_without_messages=_usual(quiet),
        one_number=_slowest(number),
        run=float(np.median([step for step in runs if step])) if runs else None,
        phases_rehearsed=_phases(one.runs.get(f"rehearse{ranks}")),
        phases_run=_phases(rounds[0] if rounds else None),
    )


def _computing(rehearsal: RehearsedRank | None) -> float | None:
    return float(np.median([tape.compute_seconds for tape in rehearsal.tapes])) if rehearsal else None


def _slowest(run: Run | None) -> float | None:
    found = series(run) if run is not None and run.measured else None
    return found.median().seconds if found is not None else None


def _usual(run: Run | None) -> float | None:
    found = series(run) if run is not None and run.measured else None
    return float(np.median(found.step_seconds[:, found.settled])) if found is not None else None


def _phases(run: Run | None) -> dict[str, float]:
    found = series(run) if run is not None and run.measured else None
    if found is None:
        return {}
    return {name: typical for name in PHASES if (typical := found.typical(found.phase_seconds[name])) is not None}
