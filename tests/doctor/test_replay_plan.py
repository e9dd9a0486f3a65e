"""Which replays are planned for a diagnosis, and of which runs they are made."""

from dataclasses import replace
from typing import Any

import pytest

from factories import make_outcome, make_run, make_start
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.doctor.replay_plan import MOST_REPLAYS, plan_replays
from scalewise.plan.replays import LEAST_SECONDS, LEAST_STEPS, MOST_SECONDS, STEPS, replay_seconds
from scalewise.records.notes import StepNote
from scalewise.records.rows import MemoryRow
from scalewise.records.spec import Change, Examined

NO_SYNC = Change("no_sync", {"window": 4})


def a_case(
    step_seconds: float = 0.01, wall_seconds: float = 1.0, kind: str = "finished", steps: int = 70, **changes: Any
) -> Case:
    outcome = replace(make_outcome(kind), wall_seconds=wall_seconds)  # type: ignore[arg-type]
    run = make_run([0.01] * 4, ranks=2, outcome=outcome, kind=Examined(), **changes)
    notes = tuple(StepNote(int(n * step_seconds * 1e9), 0, 0, 5, False, False, 1.0, 2, 2) for n in range(steps))
    return case_of(replace(run, ranks=tuple(replace(rank, notes=notes) for rank in run.ranks)))


def a_diagnosis(*changes: Change | None) -> Diagnosis:
    findings = tuple(Finding(f"check-{n}", "slow", "It is.", (), "fix", change=one) for n, one in enumerate(changes))
    return Diagnosis("/scripts/train.py", findings, (), ())


def test_a_change_of_the_observed_run_stays_in_both_sides_unless_the_change_is_another_of_its_kind() -> None:
    slow, few = Change("emulate_link", {"seconds": 1e-3, "bytes_per_second": 1e9}), Change("no_sync", {"window": 2})
    (replay,) = plan_replays(a_case(changes=(slow, few)), a_diagnosis(NO_SYNC))
    plain, mended = replay.pairs[0]
    assert (plain.changes, mended.changes) == ((slow, few), (slow, NO_SYNC))


def test_a_replay_is_the_observed_run_twice_in_turns_once_with_the_change() -> None:
    case = a_case()
    (replay,) = plan_replays(case, a_diagnosis(None, NO_SYNC, NO_SYNC))
    plain, mended = replay.pairs[0]
    assert (plain.name, mended.name) == ("replay-no-sync-window-4-r0-plain", "replay-no-sync-window-4-r0-mended")
    assert plain.turns and mended.turns and plain.turns.ring == mended.turns.ring
    assert (plain.turns.index, mended.turns.index, plain.turns.size) == (0, 1, 2)
    assert (plain.changes, mended.changes) == ((), (NO_SYNC,))
    assert plain.shows_gradients and plain.enough_steps == LEAST_STEPS
    assert replace(mended, name=plain.name, turns=plain.turns, changes=()) == plain
    assert (plain.script, plain.args, plain.ranks) == (case.run.spec.script, case.run.spec.args, 2)


def test_times_come_from_runs_that_are_not_examined() -> None:
    (replay,) = plan_replays(a_case(), a_diagnosis(NO_SYNC))
    assert [pair[0].timed for pair in replay.pairs] == [False, True]
    timed = replay.pairs[1]
    assert all(one.timed for one in timed)
    assert [one.enough_steps for one in timed] == [STEPS, STEPS]


def test_at_most_four_changes_are_replayed_the_first_ones() -> None:
    changes = [Change("divide_loss", {"by": by}) for by in range(2, 9)]
    planned = plan_replays(a_case(), a_diagnosis(*changes))
    assert [one.change for one in planned] == changes[:MOST_REPLAYS]


@pytest.mark.parametrize("kind", ["raised", "hung", "killed", "no_steps", "left_early", "interrupted"])
def test_a_script_that_does_not_get_through_is_not_replayed(kind: str) -> None:
    assert plan_replays(a_case(kind=kind), a_diagnosis(NO_SYNC)) == ()


@pytest.mark.parametrize("kind", ["finished", "enough", "aborted_at_exit", "timed_out"])
def test_a_script_that_was_only_ended_is_replayed(kind: str) -> None:
    assert plan_replays(a_case(kind=kind), a_diagnosis(NO_SYNC))


def test_a_run_without_notes_or_end_is_not_replayed() -> None:
    assert plan_replays(case_of(make_run([0.01] * 4, ranks=2)), a_diagnosis(NO_SYNC)) == ()
    assert plan_replays(a_case(unfinished=True), a_diagnosis(NO_SYNC)) == ()


@pytest.mark.parametrize(("wall", "allowed"), [(0.5, LEAST_SECONDS), (10.0, 30.0), (300.0, MOST_SECONDS)])
def test_a_replay_may_take_three_times_the_observation_within_limits(wall: float, allowed: float) -> None:
    assert replay_seconds(wall) == allowed


def test_long_steps_are_fewer() -> None:
    steps = [
        plan_replays(a_case(step_seconds=seconds, wall_seconds=100.0), a_diagnosis(NO_SYNC))[0].plain[-1].enough_steps
        for seconds in (0.01, 0.5, 5.0)
    ]
    assert steps == [STEPS, 30, LEAST_STEPS]


def test_waiting_for_data_is_measured_in_repeats_for_workers_do_not_wait_for_turns() -> None:
    (replay,) = plan_replays(a_case(), a_diagnosis(Change("cached_input")))
    specs = [one for pair in replay.pairs for one in pair]
    assert [one.turns for one in specs] == [None] * 6
    assert [one.repeat for one in specs] == [0, 0, 1, 1, 2, 2]
    assert [bool(one.changes) for one in specs] == [False, True] * 3
    assert len({one.name for one in specs}) == 6


def test_a_script_of_few_steps_is_replayed_more_often_as_far_as_the_time_allows() -> None:
    def repeats(**case: Any) -> int:
        return len(plan_replays(a_case(**case), a_diagnosis(NO_SYNC))[0].plain)

    assert [repeats(steps=steps) for steps in (8, 30, 60, 100)] == [6, 3, 2, 2]
    assert repeats(steps=8, wall_seconds=10.0) == 2
    assert repeats(steps=8, kind="enough") == 2
    wrong = replace(a_diagnosis(NO_SYNC).findings[0], severity="wrong")
    (once,) = plan_replays(a_case(steps=8), replace(a_diagnosis(), findings=(wrong,)))
    assert len(once.plain) == 1  # a matter of right or wrong needs no more
    specs = [one for pair in plan_replays(a_case(steps=8), a_diagnosis(NO_SYNC))[0].pairs for one in pair]
    assert len({one.name for one in specs}) == 12
    assert [one.turns.ring for one in specs if one.turns] == [f"replay-no-sync-window-4-r{n // 2}" for n in range(12)]


def test_runs_that_do_not_fit_into_memory_together_take_no_turns() -> None:
    row = MemoryRow(0, 2**33, 0, 0, 0, 0, None, None, None, None)
    case = a_case()  # on a machine of 16 GiB
    run = replace(case.run, ranks=tuple(replace(one, memory=(row,)) for one in case.run.ranks))
    assert plan_replays(case_of(run), a_diagnosis(NO_SYNC))[0].plain[0].turns is None


def test_ranks_of_a_launcher_of_its_own_take_no_turns() -> None:
    case = a_case()
    starts = [replace(one, start=make_start(one.rank, 4, 0.0)) for one in case.run.ranks]
    wider = case_of(replace(case.run, ranks=tuple(starts)))
    assert plan_replays(wider, a_diagnosis(NO_SYNC))[0].plain[0].turns is None
    by_torchrun = a_case(launcher="torchrun")
    assert plan_replays(by_torchrun, a_diagnosis(NO_SYNC))[0].plain[0].turns is None
