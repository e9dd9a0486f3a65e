"""H1.5C: one slow rank: how long the others wait for it, step by step within each run."""

from dataclasses import dataclass

import numpy as np

from scalewise.analysis.arms import ArmRuns, arm_of
from scalewise.analysis.estimate import Estimate, Floats, estimate, run_median
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import seconds_between
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework import Question
from scalewise.course.homework1.comparable_rows import agreeing_rows, measured_runs, shaken_by, unanswered
from scalewise.course.measured_arms import COURSE_LEVEL, refusals
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell, estimate_cell, mark_of, number_cell, said, said_with_interval
from scalewise.report.document import Answer, Cell, Column, Mark, Section, Table
from scalewise.units import listed

ORDER, EXPERIMENT = 52, "imbalance"
TABLE = "h1-5c-imbalance"
NEEDED = "There are no usable runs with and without a slow rank on several ranks."
WHOLE = Question(
    "H1.5C", "What happens to the whole training?", "the growth of the step of all ranks against the delay of one"
)
SHOWS = Question(
    "H1.5C", "What does it show about synchronisation?", "the waiting time of each rank with and without the slow one"
)
NO_WAIT = 1e-6  # seconds: a shorter wait is below the clock's resolution
MOST = 0.5  # share of the delay: growth or waiting above it comes from the delay, not from chance


@dataclass(frozen=True)
class RankWait:
    """One rank without and with the slow one, in seconds.

    DDP's ranks meet in backward, where the last one does not wait: in each step, a rank's waiting is the time that its
    backward takes in addition to the shortest one.
    """

    rank: int
    before: Estimate  # step
    after: Estimate
    own: float  # growth of the step outside backward: its own sleep
    waiting_before: Estimate
    waiting: Estimate


@dataclass(frozen=True)
class Imbalance:
    """The experiment on all ranks of one world size."""

    asked: float  # seconds
    even: ArmRow
    uneven: ArmRow
    growth: Estimate  # growth of the step of all ranks, in seconds
    ranks: tuple[RankWait, ...]

    @property
    def slow(self) -> RankWait:
        """The rank that slept."""
        return max(self.ranks, key=lambda one: one.own)

    @property
    def others(self) -> tuple[RankWait, ...]:
        """All ranks except the slow one."""
        return tuple(one for one in self.ranks if one is not self.slow)

    @property
    def growth_cell(self) -> Cell:
        """The growth of the step of all ranks, in ms."""
        return estimate_cell(self.growth, 1e3)


def build(evidence: Evidence) -> Section:
    """Builds the section: table and answers."""
    found = imbalance(evidence)
    answers = _whole(evidence, found), _shows(evidence, found)
    return Section("h1-5c", "One slow rank", (_table(evidence, found), *answers))


def imbalance(evidence: Evidence) -> Imbalance | None:
    """Returns the experiment at the most ranks that have both arms; None if there are none."""
    rows = [row for row in agreeing_rows(evidence, EXPERIMENT) if row.step_seconds is not None and row.ranks > 1]
    for ranks in sorted({row.ranks for row in rows}, reverse=True):
        own = sorted((row for row in rows if row.ranks == ranks), key=lambda row: float(row.axes.get("imbalance", 0)))
        if len(own) < 2:
            continue
        even, uneven = own[0], own[-1]
        arms = tuple(arm_of(measured_runs(evidence, row)) for row in (even, uneven))
        waits = [_wait(arms, rank) for rank in range(ranks)]
        if all(waits):
            growth = seconds_between(arms[0].side(), arms[1].side(), COURSE_LEVEL)
            return Imbalance(
                float(uneven.axes["imbalance"]), even, uneven, growth, tuple(one for one in waits if one is not None)
            )
    return None


def _wait(arms: tuple[ArmRuns, ...], rank: int) -> RankWait | None:
    parts = []
    for arm in arms:
        steps, backward, waiting = [], [], []
        for one in arm.measured:
            series = one.series
            if rank not in series.ranks:
                return None
            index = series.ranks.index(rank)
            whole = series.step_seconds[index, series.settled]
            inside = series.phase_seconds["backward"][:, series.settled]
            known = np.isfinite(inside).all(axis=0)
            if not known.any():
                return None
            steps.append(run_median(whole, COURSE_LEVEL))
            backward.append((inside[index, known], whole[known]))
            waiting.append(run_median(_positive(inside[index, known] - inside[:, known].min(axis=0)), COURSE_LEVEL))
        if not steps:
            return None
        cv = arm.run_cv
        parts.append((estimate(steps, cv), _outside(backward), estimate(waiting, cv)))
    (before, outside_before, waiting_before), (after, outside_after, waiting_after) = parts
    return RankWait(rank, before, after, outside_after - outside_before, waiting_before, waiting_after)


def _positive(values: Floats) -> Floats:
    """Returns values of at least a nanosecond, as a median of logarithms needs positive numbers."""
    found: Floats = np.maximum(values, 1e-9)
    return found


def _outside(pairs: list[tuple[Floats, Floats]]) -> float:
    return float(np.mean([np.median(whole - inside) for inside, whole in pairs]))


def _table(evidence: Evidence, found: Imbalance | None) -> Table:
    columns = (
        Column("Rank"),
        Column("Step, all alike", "ms"),
        Column("Step, one slow", "ms"),
        Column("Own sleep", "ms"),
        Column("Waiting, all alike", "ms"),
        Column("Waiting, one slow", "ms"),
    )
    caption = setting(evidence, EXPERIMENT)
    if found is not None:
        caption += (
            f" The step of all ranks grows by {said_with_interval(found.growth_cell, 'ms')}. Own sleep: growth of "
            "the step "
            "outside backward. Waiting: in each step, a rank's backward less the shortest backward of all ranks."
        )
    title = f"Rank 0 sleeps {found.asked * 1e3:g} ms before backward" if found else "One slow rank"
    notes = () if found else ("There are no usable runs with and without a slow rank on several ranks.",)
    names = (*found.even.run_names, *found.uneven.run_names) if found else ()
    rows = tuple(_row(found, one) for one in found.ranks) if found else ()
    return Table(
        TABLE, title, columns, rows, (*notes, *refusals(evidence, EXPERIMENT)), tuple(names for _ in rows), caption
    )


def _row(found: Imbalance, one: RankWait) -> tuple[Cell, ...]:
    mark = mark_of(found.uneven)
    return (
        count_cell(one.rank, mark=mark),
        estimate_cell(one.before, 1e3, mark=mark),
        estimate_cell(one.after, 1e3, mark=mark),
        number_cell(one.own, 1e3, mark=mark),
        _waiting_cell(one.waiting_before, mark),
        _waiting_cell(one.waiting, mark),
    )


def _waiting_cell(waiting: Estimate, mark: Mark) -> Cell:
    """Returns the waiting time; 0 for the rank that comes last, which does not wait."""
    return number_cell(0.0, mark=mark) if waiting.value < NO_WAIT else estimate_cell(waiting, 1e3, mark=mark)


def _whole(evidence: Evidence, found: Imbalance | None) -> Answer:
    """Returns the answer: whether the delay of one rank delays all, by the step's growth or the others' waiting."""
    if found is None:
        return unanswered(WHOLE, NEEDED, TABLE)
    grown = found.growth
    waits = [one.waiting for one in found.others]
    lesson = grown.low > MOST * found.asked or all(wait.low > MOST * found.asked for wait in waits)
    delay = f"{found.asked * 1e3:g} ms"
    number = (
        f"One rank of {found.uneven.ranks} sleeps {delay}, and the step of all grows by "
        f"{said_with_interval(found.growth_cell, 'ms')}."
    )
    if lesson:
        verdict = "It runs at the pace of its slowest rank."
        if grown.low <= MOST * found.asked:  # noise hides the growth; ranks within the same step show it
            wait = found.others[0]
            number += f" Within each step rank {wait.rank} waits {said(_row(found, wait)[5], 'ms')} for it."
        why = "No rank can finish its backward before all gradients are there, so all wait for the last one."
        practice = (
            "One slow GPU, one rank with more data or one busy host slows down every other, however many there "
            "are: balance the ranks before adding any."
        )
    elif grown.high < MOST * found.asked:
        verdict = "Most of the delay does not make the step of all ranks longer."
        why = "The other ranks are not held up: the delay falls into time in which they would have waited anyway."
        practice = ""
    else:
        verdict = "It becomes slower; by how much cannot be told from these runs."
        why = "Steps scatter more than the delay."
        practice = "More repeats on a quiet machine would tell."
    return WHOLE.answer(
        verdict,
        number,
        why,
        practice,
        decided="The pace of the slowest: the growth of the step, or the other ranks' waiting within the same steps, "
        f"lies above {MOST:.0%} of the delay with its interval.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _shows(evidence: Evidence, found: Imbalance | None) -> Answer:
    """Returns the answer, by the waiting of the other ranks, paired with the slow one's backward step by step."""
    if found is None:
        return unanswered(SHOWS, NEEDED, TABLE)
    cells = {one.rank: _row(found, one) for one in found.ranks}
    waits = listed(
        [f"rank {one.rank} waits {said_with_interval(cells[one.rank][5], 'ms')}" for one in found.others[:2]]
    )
    more = f" (and {len(found.others) - 2} more ranks alike)" if len(found.others) > 2 else ""
    slow = cells[found.slow.rank]
    number = (
        f"In each step rank {found.slow.rank} spends {said(slow[3], 'ms')} more of its own time and waits "
        f"{said(slow[5], 'ms')}, while {waits} in backward{more}."
    )
    waiting = [one.waiting for one in found.others]
    if all(wait.low > MOST * found.asked for wait in waiting):
        verdict = "Every step is a barrier: no rank leaves the all-reduce before the last one has arrived."
        why = (
            "The time lost on one rank becomes waiting on all others, which show a long backward though nothing is "
            "wrong with them."
        )
        practice = "So look for the rank with the shortest backward: it is the one that came last."
    elif all(wait.high < MOST * found.asked for wait in waiting):
        verdict = "The other ranks hardly wait for it: they do not meet in every step."
        why = "Without an exchange of gradients in each step there is nothing to wait for."
        practice = ""
    else:
        verdict = "Whether the others wait for it cannot be told from these runs."
        why, practice = "Their backward scatters as much as the delay.", "More repeats on a quiet machine would tell."
    return SHOWS.answer(
        verdict,
        number,
        why,
        practice,
        decided="The waiting of the other ranks within the steps of a run: its interval above or below "
        f"{MOST:.0%} of the delay, or across it.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )
