"""H1.5C: one slow rank: how much of its delay the others wait for, in milliseconds per rank."""

from dataclasses import dataclass

import numpy as np

from scalewise.analysis.arms import arm_of
from scalewise.analysis.estimate import Estimate, estimate, run_median
from scalewise.analysis.propagate import exact, propagate
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
    """One rank without and with the imbalance: its step, its own delay, and how long it waits in backward.

    DDP's ranks meet in backward, and who comes last waits for nobody: what the others' backward takes on top of the
    shortest one is their waiting.
    """

    rank: int
    before_seconds: Estimate
    after_seconds: Estimate
    own_seconds: Estimate  # growth of all but backward: its own sleep
    backward_seconds: Estimate  # with the imbalance
    waiting_before: Estimate
    waiting_seconds: Estimate


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
        """Waiting that the slow rank causes on the first other one: what it waits longer than before."""
        return propagate(lambda a, b: b - a, self.others[0].waiting_before, self.others[0].waiting_seconds)


def imbalance(evidence: Evidence) -> Imbalance | None:
    """At the most ranks that have both arms; None where there are none."""
    rows = [row for row in evidence.rows(EXPERIMENT) if row.step_seconds is not None and row.ranks > 1]
    for ranks in sorted({row.ranks for row in rows}, reverse=True):
        own = sorted((row for row in rows if row.ranks == ranks), key=lambda row: float(row.axes.get("imbalance", 0)))
        if len(own) < 2:
            continue
        waits = _waits(evidence, own[0], own[-1])
        if len(waits) == ranks:
            return Imbalance(float(own[-1].axes["imbalance"]), own[0], own[-1], waits)
    return None


def _waits(evidence: Evidence, even: ArmRow, uneven: ArmRow) -> tuple[RankWait, ...]:
    """Empty where any rank lacks a figure."""
    found: dict[tuple[str, int, str], Estimate] = {}
    for name, row in (("even", even), ("uneven", uneven)):
        for rank in range(row.ranks):
            for part in ("step", "backward", "outside backward"):
                known = _of_rank(evidence, row, rank, part)
                if known is None:
                    return ()
                found[name, rank, part] = known
    ranks = range(even.ranks)

    def waiting(name: str, rank: int) -> Estimate:
        last = min(ranks, key=lambda one: found[name, one, "backward"].value)
        if rank == last:
            return exact(0.0)
        return propagate(lambda a, b: a - b, found[name, rank, "backward"], found[name, last, "backward"])

    return tuple(
        RankWait(
            rank=rank,
            before_seconds=found["even", rank, "step"],
            after_seconds=found["uneven", rank, "step"],
            own_seconds=propagate(
                lambda a, b: b - a, found["even", rank, "outside backward"], found["uneven", rank, "outside backward"]
            ),
            backward_seconds=found["uneven", rank, "backward"],
            waiting_before=waiting("even", rank),
            waiting_seconds=waiting("uneven", rank),
        )
        for rank in ranks
    )


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
    slow, others, moved = found.slow, found.others, found.moved_seconds
    waits = listed([f"rank {one.rank} waits {_wait_words(one)}" for one in others])
    numbers = (
        f"In each step rank {slow.rank} spends {seconds_phrase(slow.own_seconds)} more of its own time, and {waits}: "
        f"{seconds_phrase(moved)} moved from rank {slow.rank} to {_others_words(len(others))}."
    )
    if moved.low > 0 and moved.high > 0.5 * found.asked_seconds:
        text = (
            f"{numbers} The all-reduce is a meeting: nobody leaves it before the last has come, so time lost on one "
            "rank turns into waiting on all others: they show a long backward whose cause lies elsewhere."
        )
    elif moved.high < 0.5 * found.asked_seconds:
        text = f"{numbers} The others do not wait for it: the ranks are not in lock-step in every step."
    else:
        text = f"{numbers} Whether the others wait for it cannot be told from these runs."
    condition = "interval of the waiting moved: above 0 and reaching half of the delay, below half of it, or neither"
    return Answer(ROW, SHOWS, text, condition, (TABLE,))


def _wait_words(one: RankWait) -> str:
    before = one.waiting_before
    said = seconds_phrase(before) if before.value or before.low != before.high else "not at all"
    return f"{seconds_phrase(one.waiting_seconds)} ({said} without the delay)"


def _others_words(count: int) -> str:
    return "the other" if count == 1 else "each other rank"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """Both questions of H1.5C."""
    found = imbalance(evidence)
    return whole_answer(found), shows_answer(found)
