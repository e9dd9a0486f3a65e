"""Which replays are planned for a diagnosis, and of which runs they are made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import make_outcome, make_run, make_start
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Check, Diagnosis, Finding, GradientPair, Replayed, Rule
from scalewise.doctor.replay import MOST_REPLAYS, plan_replays, replay_findings, time_saved
from scalewise.errors import BadRequest
from scalewise.plan.replays import LEAST_SECONDS, LEAST_STEPS, MOST_SECONDS, STEPS, replay_seconds
from scalewise.records.examination import AppliedRow
from scalewise.records.inspection import GradientRow
from scalewise.records.load import Run
from scalewise.records.notes import StepNote
from scalewise.records.rows import EndRow, MemoryRow, TroubleRow
from scalewise.records.spec import Change, Examined, RunSpec

NO_SYNC = Change("no_sync", {"window": 4})


def a_case(
    step_seconds: float = 0.01, wall_seconds: float = 1.0, kind: str = "finished", steps: int = 70, **changes: Any
) -> Case:
    outcome = replace(make_outcome(kind), wall_seconds=wall_seconds)  # type: ignore[arg-type]
    run = make_run([0.01] * 4, ranks=2, outcome=outcome, kind=Examined(), **changes)
    notes = tuple(StepNote(int(n * step_seconds * 1e9), 0, 0, 5, False, False, 1.0, 2, 2) for n in range(steps))
    return case_of(replace(run, ranks=tuple(replace(rank, notes=notes) for rank in run.ranks)))


def to_replay(*changes: Change | None) -> Diagnosis:
    findings = tuple(Finding(f"check-{n}", "slow", "It is.", (), "fix", change=one) for n, one in enumerate(changes))
    return Diagnosis("/scripts/train.py", findings, (), ())


def test_a_change_of_the_observed_run_stays_in_both_sides_unless_the_change_is_another_of_its_kind() -> None:
    slow, few = Change("emulate_link", {"seconds": 1e-3, "bytes_per_second": 1e9}), Change("no_sync", {"window": 2})
    (replay,) = plan_replays(a_case(changes=(slow, few)), to_replay(NO_SYNC))
    plain, fixed = replay.pairs[0]
    assert (plain.changes, fixed.changes) == ((slow, few), (slow, NO_SYNC))


def test_a_replay_is_the_observed_run_twice_in_turns_once_with_the_change() -> None:
    case = a_case()
    (replay,) = plan_replays(case, to_replay(None, NO_SYNC, NO_SYNC))
    plain, fixed = replay.pairs[0]
    assert (plain.name, fixed.name) == ("replay-no-sync-window-4-r0-plain", "replay-no-sync-window-4-r0-mended")
    assert plain.turns and fixed.turns and plain.turns.ring == fixed.turns.ring
    assert (plain.turns.index, fixed.turns.index, plain.turns.size) == (0, 1, 2)
    assert (plain.changes, fixed.changes) == ((), (NO_SYNC,))
    assert plain.shows_gradients and plain.enough_steps == LEAST_STEPS
    assert replace(fixed, name=plain.name, turns=plain.turns, changes=()) == plain
    assert (plain.script, plain.args, plain.ranks) == (case.run.spec.script, case.run.spec.args, 2)


def test_times_come_from_runs_that_are_not_examined() -> None:
    (replay,) = plan_replays(a_case(), to_replay(NO_SYNC))
    assert [pair[0].timed for pair in replay.pairs] == [False, True]
    timed = replay.pairs[1]
    assert all(one.timed for one in timed)
    assert [one.enough_steps for one in timed] == [STEPS, STEPS]


def test_at_most_four_changes_are_replayed_the_first_ones() -> None:
    changes = [Change("divide_loss", {"by": by}) for by in range(2, 9)]
    planned = plan_replays(a_case(), to_replay(*changes))
    assert [one.change for one in planned] == changes[:MOST_REPLAYS]


@pytest.mark.parametrize("kind", ["raised", "hung", "killed", "no_steps", "left_early", "interrupted"])
def test_a_script_that_does_not_get_through_is_not_replayed(kind: str) -> None:
    assert plan_replays(a_case(kind=kind), to_replay(NO_SYNC)) == ()


@pytest.mark.parametrize("kind", ["finished", "enough", "aborted_at_exit", "timed_out"])
def test_a_script_that_was_only_ended_is_replayed(kind: str) -> None:
    assert plan_replays(a_case(kind=kind), to_replay(NO_SYNC))


def test_a_run_without_notes_or_end_is_not_replayed() -> None:
    assert plan_replays(case_of(make_run([0.01] * 4, ranks=2)), to_replay(NO_SYNC)) == ()
    assert plan_replays(a_case(unfinished=True), to_replay(NO_SYNC)) == ()


@pytest.mark.parametrize(("wall", "allowed"), [(0.5, LEAST_SECONDS), (10.0, 30.0), (300.0, MOST_SECONDS)])
def test_a_replay_may_take_three_times_the_observation_within_limits(wall: float, allowed: float) -> None:
    assert replay_seconds(wall) == allowed


def test_long_steps_are_fewer() -> None:
    steps = [
        plan_replays(a_case(step_seconds=seconds, wall_seconds=100.0), to_replay(NO_SYNC))[0].plain[-1].enough_steps
        for seconds in (0.01, 0.5, 5.0)
    ]
    assert steps == [STEPS, 30, LEAST_STEPS]


def test_waiting_for_data_is_measured_in_repeats_for_workers_do_not_wait_for_turns() -> None:
    (replay,) = plan_replays(a_case(), to_replay(Change("cached_input")))
    specs = [one for pair in replay.pairs for one in pair]
    assert [one.turns for one in specs] == [None] * 6
    assert [one.repeat for one in specs] == [0, 0, 1, 1, 2, 2]
    assert [bool(one.changes) for one in specs] == [False, True] * 3
    assert len({one.name for one in specs}) == 6


def test_a_script_of_few_steps_is_replayed_more_often_as_far_as_the_time_allows() -> None:
    def repeats(**case: Any) -> int:
        return len(plan_replays(a_case(**case), to_replay(NO_SYNC))[0].plain)

    assert [repeats(steps=steps) for steps in (8, 30, 60, 100)] == [6, 3, 2, 2]
    assert repeats(steps=8, wall_seconds=10.0) == 2
    assert repeats(steps=8, kind="enough") == 2
    wrong = replace(to_replay(NO_SYNC).findings[0], severity="wrong")
    (once,) = plan_replays(a_case(steps=8), replace(to_replay(), findings=(wrong,)))
    assert len(once.plain) == 1  # a matter of right or wrong needs no more
    specs = [one for pair in plan_replays(a_case(steps=8), to_replay(NO_SYNC))[0].pairs for one in pair]
    assert len({one.name for one in specs}) == 12
    assert [one.turns.ring for one in specs if one.turns] == [f"replay-no-sync-window-4-r{n // 2}" for n in range(12)]


def test_runs_that_do_not_fit_into_memory_together_take_no_turns() -> None:
    row = MemoryRow(0, 2**33, 0, 0, 0, 0, None, None, None, None)
    case = a_case()  # on a machine of 16 GiB
    run = replace(case.run, ranks=tuple(replace(one, memory=(row,)) for one in case.run.ranks))
    assert plan_replays(case_of(run), to_replay(NO_SYNC))[0].plain[0].turns is None


def test_ranks_of_a_launcher_of_its_own_take_no_turns() -> None:
    case = a_case()
    starts = [replace(one, start=make_start(one.rank, 4, 0.0)) for one in case.run.ranks]
    wider = case_of(replace(case.run, ranks=tuple(starts)))
    assert plan_replays(wider, to_replay(NO_SYNC))[0].plain[0].turns is None
    by_torchrun = a_case(launcher="torchrun")
    assert plan_replays(by_torchrun, to_replay(NO_SYNC))[0].plain[0].turns is None


SLOW = Finding("sync-every-micro-batch", "slow", "It is.", ("1",), "fix", change=NO_SYNC)
EXAMINING_SECONDS = 0.003  # that a fixed step has no waiting to hide: no price may hold it
NOTE = StepNote(1, 0, 0, 5, False, False, 1.0, 2, 2)


def with_notes(run: Run, **changes: Any) -> Run:
    return replace(run, ranks=tuple(replace(rank, notes=(NOTE,), **changes) for rank in run.ranks))


def observed() -> Case:
    return case_of(with_notes(make_run([0.01] * 4, ranks=2, kind=Examined())))


def a_diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis("/scripts/train.py", findings, (), (), ("It finished.",))


class Bench:
    """Makes runs of values: 10 ms a step as it is, and something else fixed."""

    def __init__(self, fixed_seconds: float = 0.006, **fixed: Any) -> None:
        self.fixed_seconds, self.fixed = fixed_seconds, fixed
        self.plain: dict[str, Any] = {}
        self.made: list[str] = []

    def __call__(self, specs: Sequence[RunSpec]) -> list[Run]:
        self.made += [spec.name for spec in specs]
        return [self._run(spec) for spec in specs]

    def _run(self, spec: RunSpec) -> Run:
        seconds = self.fixed_seconds if spec.changes else 0.01
        seconds += EXAMINING_SECONDS * (spec.examined is not None) * bool(spec.changes)
        noise = 1 + 0.01 * np.random.default_rng(sum(spec.name.encode())).normal(size=50)
        changes = dict(self.fixed if spec.changes else self.plain)
        turn = {"turn_ns": 5} if spec.turns else {}
        run = make_run(seconds * noise, ranks=2, step=turn, outcome=changes.pop("outcome", None))
        told = (AppliedRow("no_sync", 1), AppliedRow("no_sync", 48)) if spec.changes else ()
        run = with_notes(run, **{"examination": told, "end": None, **changes})
        return replace(run, spec=spec)


def settled(bench: Bench, finding: Finding = SLOW, among: Sequence[Rule] = ()) -> Finding:
    (found,) = replay_findings(observed(), a_diagnosis(finding), bench, among).findings
    return found


def test_a_slow_finding_gets_its_price_with_the_interval_and_how_it_was_measured() -> None:
    found = settled(Bench())
    assert found.proof == "replayed"
    assert found.price and found.price.unit == "ms per step"
    assert found.price.value == pytest.approx(4.0, rel=0.05)
    within = found.price.interval
    assert within is not None and within.level == 0.95
    assert 3.5 < within.low < found.price.value < within.high < 4.5
    assert found.price.how.startswith("measured over ") and "step by step in turns, 5 pairs" in found.price.how


def test_a_change_that_spares_nothing_proves_nothing() -> None:
    assert settled(Bench(0.01)).proof == "observed"
    assert settled(Bench(0.015)).proof == "suspected"


def test_a_check_settles_its_own_finding_with_what_was_seen() -> None:
    seen: list[Replayed] = []

    def settle(case: Case, finding: Finding, shown: Replayed) -> Finding:
        seen.append(shown)
        return replace(finding, proof="replayed")

    check = Check(SLOW.check, "accumulation", "slow", "", "", "", "", "")
    bench = Bench(inspection=(GradientRow(0, 100, 5, 0, 2.0, 0.5),))
    bench.plain = {"inspection": (GradientRow(0, 100, 50, 0, 8.0, 2.0),)}
    assert settled(bench, among=[Rule(check, lambda case: (), settle)]).proof == "replayed"
    (shown,) = seen
    assert shown.applied == 2 * 48 * 6  # ranks, times, runs: one is examined, five are timed
    assert shown.change == NO_SYNC and not shown.trouble
    assert shown.gradients == GradientPair(0, 8.0, 2.0, 2.0, 0.5, 0.5, 0.05)
    assert shown.gradients.factor == 0.25


def test_a_finding_that_its_check_gives_up_is_a_check_that_passed() -> None:
    check = Check(SLOW.check, "accumulation", "slow", "", "", "", "", "")
    rule = Rule(check, lambda case: (), lambda case, finding, shown: None)
    other = Finding("never-zeroed", "wrong", "It is.", (), "fix")
    told = replay_findings(observed(), a_diagnosis(SLOW, other), Bench(), [rule])
    assert told.findings == (other,) and told.passed == (SLOW.check,)


def test_a_wrong_finding_without_words_of_its_own_tells_of_the_gradient() -> None:
    bench = Bench(inspection=(GradientRow(0, 100, 5, 0, 2.0, 0.5),))
    bench.plain = {"inspection": (GradientRow(0, 100, 50, 0, 8.0, 2.0),)}
    found = settled(bench, replace(SLOW, severity="wrong"))
    assert found.evidence[-1] == "replayed with no_sync window=4, the first step's gradient is 0.25 times as long"


def test_the_same_change_is_replayed_once_for_two_findings() -> None:
    bench = Bench()
    other = replace(SLOW, check="no-sync-around-backward-only")
    found = replay_findings(observed(), a_diagnosis(SLOW, other), bench, ()).findings
    assert [one.proof for one in found] == ["replayed", "replayed"]
    assert len(bench.made) == len(set(bench.made)) == 2 * 6  # the script makes one step only


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"examination": ()}, "the fix could not be applied from outside: it never took effect"),
        (
            {"trouble": (TroubleRow("change no_sync", "KeyError: 'window'"),)},
            "applied from outside: KeyError: 'window'",
        ),
        ({"outcome": make_outcome("hung", "Rank 0 hung.")}, "with the fix applied the script failed"),
    ],
)
def test_a_replay_that_says_nothing_leaves_the_finding_and_gives_the_reason(fixed: Any, words: str) -> None:
    found = settled(Bench(**fixed), replace(SLOW, severity="wrong"))
    assert (found.proof, found.price) == ("observed", None)
    assert words in found.evidence[-1]
    assert found.evidence[-1].startswith("a replay with the fix could not settle it: ")


def test_a_script_that_fails_the_second_time_leaves_the_finding() -> None:
    bench = Bench()
    bench.plain = {"outcome": make_outcome("raised", "Rank 0 raised.")}
    assert "the unchanged script failed when it was run again: Rank 0 raised." in settled(bench).evidence[-1]


def test_a_script_that_resumes_has_no_step_left_for_the_second_time() -> None:
    bench = Bench()
    bench.plain = {"outcome": make_outcome("no_steps", "No step was seen")}
    assert settled(bench).evidence[-1].endswith("it may have gone on from a checkpoint of the first run")


def test_a_replay_ends_with_the_first_pair_that_does_not_get_through() -> None:
    bench = Bench()
    bench.plain = {"outcome": make_outcome("timed_out", "it took longer than its limit")}
    settled(bench)
    assert len(bench.made) == 2


def test_an_interrupted_replay_leaves_the_finding_and_makes_no_other() -> None:
    other = replace(SLOW, change=Change("threads", {"count": 1}))
    calls = 0

    def make(specs: Sequence[RunSpec]) -> list[Run]:
        nonlocal calls
        calls += 1
        return []

    found = replay_findings(observed(), a_diagnosis(SLOW, other), make, ())
    assert found.findings == (SLOW, other)
    assert found.notes[-1] == "Not run again for want of time: no_sync window=4, threads count=1."
    assert calls == 1


def test_a_folder_that_takes_no_pipes_leaves_the_finding() -> None:
    def make(specs: Sequence[RunSpec]) -> list[Run]:
        raise BadRequest("its disk takes no named pipes")

    (found,) = replay_findings(observed(), a_diagnosis(SLOW), make, ()).findings
    assert found.evidence[-1].endswith("could not settle it: its disk takes no named pipes")


def test_a_price_of_a_gpu_script_on_the_cpu_says_so() -> None:
    runs = [make_run([0.01] * 40, ranks=2, on_cpu=True) for _ in range(2)]
    found = time_saved(runs[:1], runs[1:])
    assert found and found.how.endswith("on the CPU, where it may weigh otherwise than on a GPU")


def test_a_check_that_cannot_read_the_replay_leaves_the_finding() -> None:
    def settle(case: Case, finding: Finding, shown: Replayed) -> Finding:
        raise ZeroDivisionError("division by zero")

    check = Check(SLOW.check, "accumulation", "slow", "", "", "", "", "")
    found = settled(Bench(), among=[Rule(check, lambda case: (), settle)])
    assert (found.proof, found.price) == ("observed", None)
    assert "the check could not read it: ZeroDivisionError" in found.evidence[-1]


def test_the_count_of_a_run_that_ended_by_itself_is_its_last_row() -> None:
    ended = EndRow(50, None, {"remedy:no_sync": 150})
    found = settled(Bench(examination=(), end=ended))
    assert found.proof == "replayed"


def test_findings_without_a_change_stay_as_they_are() -> None:
    bench = Bench()
    plain = replace(SLOW, change=None)
    diagnosis = a_diagnosis(plain)
    assert replay_findings(observed(), diagnosis, bench, ()) == diagnosis
    assert bench.made == []


def test_what_waiting_for_data_costs_is_read_from_the_whole_loop() -> None:
    waiting = [make_run([0.01] * 40, ranks=2, repeat=n, step={"data_ns": 30_000_000}) for n in range(2)]
    cached = [make_run([0.01] * 40, ranks=2, repeat=n, step={"data_ns": 0}) for n in range(2)]
    steps, loops = time_saved(waiting, cached), time_saved(waiting, cached, whole_loop=True)
    assert steps and abs(steps.milliseconds.value) < 1e-6
    assert loops and loops.milliseconds.value == pytest.approx(30.0, rel=0.01)
    assert loops.step_milliseconds == pytest.approx(40.0, rel=0.01)
    assert "rounds of the loop" in loops.how


def test_runs_of_other_work_are_not_compared() -> None:
    assert time_saved([make_run([0.01] * 40)], [make_run([0.01] * 40, samples_in_all=8)]) is None
    assert time_saved([make_run([0.01] * 40)], [make_run([0.01] * 40, outcome=make_outcome("raised"))]) is None
