"""H1.5C: one slow rank: how much of its delay the others wait for, in milliseconds per rank."""

from dataclasses import dataclass

import numpy as np

from scalewise.analysis.arms import arm_of
from scalewise.analysis.estimate import Estimate, estimate, run_median
from scalewise.analysis.propagate import propagate
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import runs_of
from scalewise.explain.words import listed, seconds_phrase
from scalewise.units import seconds_text

ROW = "H1.5C"
EXPERIMENT = "imbalance"
TABLE = "h1-5c-imbalance"
WHOLE = "What happens to the whole?"
SHOWS = "What does it show about synchronisation?"


@dataclass(frozen=True)
class RankWait:
    """One rank: its step without and with the imbalance, its own delay, and what is left of the growth: waiting."""

    rank: int
    before_seconds: Estimate
    after_seconds: Estimate
    own_seconds: Estimate  # growth of all but backward: its own sleep
    waiting_seconds: Estimate  # growth of backward, in which DDP meets the others; below 0: it waits less than before


@dataclass(frozen=True)
class Imbalance:
    """The experiment on all ranks of one world size."""

    asked_seconds: float
    even: ArmRow
    uneven: ArmRow
    ranks: tuple[RankWait, ...]

    @property
    def slow(self) -> RankWait:
        """The rank that slept most."""
        return max(self.ranks, key=lambda one: one.own_seconds.value)

    @property
    def others(self) -> tuple[RankWait, ...]:
        """All but the slow one."""
        return tuple(one for one in self.ranks if one is not self.slow)

    @property
    def moved_seconds(self) -> Estimate:
        """Waiting that the slow rank causes: the others' growth of backward less its own, which the machine shares."""
        count = len(self.others)
        waits = [one.waiting_seconds for one in self.others]
        return propagate(lambda slow, *rest: sum(rest) / count - slow, self.slow.waiting_seconds, *waits)


def imbalance(evidence: Evidence) -> Imbalance | None:
    """At the most ranks that have both arms; None where there are none."""
    rows = [row for row in evidence.rows(EXPERIMENT) if row.step_seconds is not None and row.ranks > 1]
    for ranks in sorted({row.ranks for row in rows}, reverse=True):
        own = sorted((row for row in rows if row.ranks == ranks), key=lambda row: float(row.axes.get("imbalance", 0)))
        if len(own) < 2:
            continue
        waits = [_wait(evidence, own[0], own[-1], rank) for rank in range(ranks)]
        known = tuple(one for one in waits if one is not None)
        if len(known) == ranks:
            return Imbalance(float(own[-1].axes["imbalance"]), own[0], own[-1], known)
    return None


def _wait(evidence: Evidence, even: ArmRow, uneven: ArmRow, rank: int) -> RankWait | None:
    before, after = (_of_rank(evidence, row, rank, "step") for row in (even, uneven))
    if before is None or after is None:
        return None
    growths = []
    for part in ("outside backward", "backward"):
        quiet, late = (_of_rank(evidence, row, rank, part) for row in (even, uneven))
        if quiet is None or late is None:
            return None
        growths.append(propagate(lambda a, b: b - a, quiet, late))
    return RankWait(rank, before, after, *growths)


def _of_rank(evidence: Evidence, row: ArmRow, rank: int, part: str) -> Estimate | None:
    """The rank's own step, its backward, or the rest of the step, over the arm's runs."""
    runs = runs_of(row, evidence)
    if not runs:
        return None
    arm = arm_of(runs)
    medians = []
    for one in arm.measured:
        if rank not in one.series.ranks:
            return None
        backward, step = one.series.phase_seconds["backward"], one.series.step_seconds
        values = {"step": step, "backward": backward, "outside backward": step - backward}[part]
        settled = values[one.series.ranks.index(rank), one.series.settled]
        known = settled[np.isfinite(settled)]
        if not len(known):
            return None
        medians.append(run_median(np.maximum(known, 1e-9)))
    return estimate(medians, arm.run_cv) if medians else None


def whole_answer(found: Imbalance | None) -> Answer:
    """Whether the whole is held up by the slow rank alone."""
    if found is None:
        return unanswered(
            ROW, WHOLE, f"{EXPERIMENT} has no usable runs with and without the imbalance on several ranks"
        )
    before, after = found.even.step_seconds, found.uneven.step_seconds
    if before is None or after is None:
        return unanswered(ROW, WHOLE, f"{EXPERIMENT} has no step times")
    growth = propagate(lambda a, b: b - a, before, after)
    asked = seconds_text(found.asked_seconds)
    numbers = (
        f"from {seconds_phrase(before)} to {seconds_phrase(after)}, by {seconds_phrase(growth)}, while one rank of "
        f"{found.uneven.ranks} sleeps {asked}"
    )
    if growth.low > 0.5 * found.asked_seconds:
        text = (
            f"The whole runs at the pace of its slowest rank: the step grows {numbers}. One rank's loss is everyone's."
        )
    elif growth.high < 0.5 * found.asked_seconds:
        text = f"Most of the delay is hidden: the step grows {numbers}."
    else:
        text = f"The step grows {numbers}; how much of the delay that is cannot be told."
    return Answer(ROW, WHOLE, text, "growth of the step above or below half of the delay, with its interval", (TABLE,))


def shows_answer(found: Imbalance | None) -> Answer:
    """Waiting moved to the others where their growth is not their own."""
    if found is None:
        return unanswered(
            ROW, SHOWS, f"{EXPERIMENT} has no usable runs with and without the imbalance on several ranks"
        )
    slow, others = found.slow, found.others
    waits = listed([f"rank {one.rank} spends {seconds_phrase(one.waiting_seconds)} more in backward" for one in others])
    sleeps, more = seconds_phrase(slow.own_seconds), seconds_phrase(slow.waiting_seconds)
    own = f"rank {slow.rank} spends {sleeps} more outside backward and {more} in it"
    moved = found.moved_seconds
    numbers = (
        f"In each step {own}; {waits}: {seconds_phrase(moved)} of waiting moved from rank {slow.rank} to "
        f"{'the other' if len(others) == 1 else 'each other rank'}."
    )
    if moved.low > 0 and moved.high > 0.5 * found.asked_seconds:
        text = (
            f"{numbers} The all-reduce is a meeting: nobody leaves it before the last has come, so time lost on one "
            "rank turns into waiting on all others: they show a long backward whose cause lies elsewhere."
        )
    else:
        text = f"{numbers} The others do not clearly wait: the ranks are not in lock-step in every step."
    condition = "waiting moved is above 0 with its interval, which reaches half of the delay or more"
    return Answer(ROW, SHOWS, text, condition, (TABLE,))


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """Both questions of H1.5C."""
    found = imbalance(evidence)
    return whole_answer(found), shows_answer(found)
