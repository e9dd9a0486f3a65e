"""What replays make of findings: settled where both sides ran, left as they were, with the reason, where not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import make_outcome, make_run
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.doctor.replay import GradientPair, Replayed
from scalewise.doctor.replay_verdict import replay_findings, spared
from scalewise.doctor.rules import Check, Rule
from scalewise.errors import BadRequest
from scalewise.records.examination import AppliedRow
from scalewise.records.inspection import GradientRow
from scalewise.records.load import Run
from scalewise.records.notes import StepNote
from scalewise.records.rows import EndRow, TroubleRow
from scalewise.records.spec import Change, Examined, RunSpec

NO_SYNC = Change("no_sync", {"window": 4})
SLOW = Finding("sync-every-micro-batch", "slow", "It is.", ("1",), "fix", change=NO_SYNC)
EXAMINING_SECONDS = 0.003  # that a mended step has no waiting to hide: no price may hold it
NOTE = StepNote(1, 0, 0, 5, False, False, 1.0, 2, 2)


def with_notes(run: Run, **changes: Any) -> Run:
    return replace(run, ranks=tuple(replace(rank, notes=(NOTE,), **changes) for rank in run.ranks))


def observed() -> Case:
    return case_of(with_notes(make_run([0.01] * 4, ranks=2, kind=Examined())))


def a_diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis("/scripts/train.py", findings, (), (), ("It finished.",))


class Bench:
    """Makes runs of values: 10 ms a step as it is, and something else mended."""

    def __init__(self, mended_seconds: float = 0.006, **mended: Any) -> None:
        self.mended_seconds, self.mended = mended_seconds, mended
        self.plain: dict[str, Any] = {}
        self.made: list[str] = []

    def __call__(self, specs: Sequence[RunSpec]) -> list[Run]:
        self.made += [spec.name for spec in specs]
        return [self._run(spec) for spec in specs]

    def _run(self, spec: RunSpec) -> Run:
        seconds = self.mended_seconds if spec.changes else 0.01
        seconds += EXAMINING_SECONDS * (spec.examined is not None) * bool(spec.changes)
        noise = 1 + 0.01 * np.random.default_rng(sum(spec.name.encode())).normal(size=50)
        changes = dict(self.mended if spec.changes else self.plain)
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
    ("mended", "words"),
    [
        ({"examination": ()}, "the fix could not be applied from outside: it never took effect"),
        (
            {"trouble": (TroubleRow("change no_sync", "KeyError: 'window'"),)},
            "applied from outside: KeyError: 'window'",
        ),
        ({"outcome": make_outcome("hung", "Rank 0 hung.")}, "with the fix applied the script did not get through"),
    ],
)
def test_a_replay_that_says_nothing_leaves_the_finding_and_gives_the_reason(mended: Any, words: str) -> None:
    found = settled(Bench(**mended), replace(SLOW, severity="wrong"))
    assert (found.proof, found.price) == ("observed", None)
    assert words in found.evidence[-1]
    assert found.evidence[-1].startswith("a replay with the fix could not settle it: ")


def test_a_script_that_fails_the_second_time_leaves_the_finding() -> None:
    bench = Bench()
    bench.plain = {"outcome": make_outcome("raised", "Rank 0 raised.")}
    assert "the script as it is did not get through again: Rank 0 raised." in settled(bench).evidence[-1]


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
    found = spared(runs[:1], runs[1:])
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
    steps, loops = spared(waiting, cached), spared(waiting, cached, whole_loop=True)
    assert steps and abs(steps.milliseconds.value) < 1e-6
    assert loops and loops.milliseconds.value == pytest.approx(30.0, rel=0.01)
    assert loops.step_milliseconds == pytest.approx(40.0, rel=0.01)
    assert "rounds of the loop" in loops.how


def test_runs_of_other_work_are_not_compared() -> None:
    assert spared([make_run([0.01] * 40)], [make_run([0.01] * 40, samples_in_all=8)]) is None
    assert spared([make_run([0.01] * 40)], [make_run([0.01] * 40, outcome=make_outcome("raised"))]) is None
