"""Supervision with ranks that are on no host: every verdict, told from signs of life alone, in no time."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from launch_runner import spec_of

from fake_launcher import FakeLauncher, FakeRanks, Move, Part, raising, training
from scalewise.launch.supervise import run_one
from scalewise.launch.verdict import Exit
from scalewise.records.folder import RunFolder
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec

COMPUTING = Part(tuple(Move(0.2 * n, "backward", n, n) for n in range(10_000)))
SPEC = replace(spec_of("train.py"), limit_seconds=600.0, stall_seconds=60.0)
IN_COLLECTIVE = ('File "torch/distributed/distributed_c10d.py", line 1 in all_reduce',)


def supervised(
    folder: Path, *parts: Part, spec: RunSpec = SPEC, stop_at: int | None = None
) -> tuple[Outcome, FakeRanks]:
    run = RunFolder(folder)
    launcher = FakeLauncher(lambda _: parts)
    heard: list[float] = []
    outcome = run_one(
        spec, run, launcher, lambda _, now: heard.append(now), lambda: stop_at is not None and len(heard) >= stop_at
    )
    (ranks,) = launcher.started
    assert ranks.ended and ranks.closed and ranks.samples == len(heard)
    assert not run.pulses.exists(), "supervision shares no memory with its ranks"
    return outcome, ranks


def test_ranks_that_leave_in_order_have_finished(tmp_path: Path) -> None:
    outcome, ranks = supervised(tmp_path, training(40), training(40))
    assert outcome.kind == "finished" and "40 steps" in outcome.sentence
    assert outcome.wall_seconds == pytest.approx(ranks.seconds + ranks.seconds_before)
    assert [end.exit_code for end in outcome.ranks] == [0, 0]


def test_a_rank_that_raises_is_blamed_and_the_others_are_ended(tmp_path: Path) -> None:
    outcome, ranks = supervised(tmp_path, COMPUTING, raising(at_seconds=3.0))
    assert (outcome.kind, outcome.first_failed_rank) == ("raised", 1)
    assert "ValueError: no data" in outcome.sentence
    assert 3.0 < ranks.seconds < 5.0, "the others get a moment to say so themselves"


def test_a_standstill_is_found_after_its_limit_and_the_rank_that_waits_for_nobody_is_blamed(tmp_path: Path) -> None:
    stuck = Part((Move(0.1, "own code", 3, 3),), stack=('File "train.py", line 7 in loop',))
    waiting = Part((Move(0.2, "in a collective", 3, 4),), stack=IN_COLLECTIVE)
    began = time.monotonic()
    outcome, ranks = supervised(tmp_path, waiting, stuck)
    assert (outcome.kind, outcome.first_failed_rank) == ("hung", 1)
    assert outcome.ranks[1].stack == stuck.stack
    assert 60.0 < ranks.seconds < 61.0
    assert time.monotonic() - began < 5.0, "nobody waits for a clock that is not there"


def test_a_run_over_its_limit_is_timed_out(tmp_path: Path) -> None:
    outcome, ranks = supervised(tmp_path, COMPUTING, COMPUTING, spec=replace(SPEC, limit_seconds=30.0))
    assert outcome.kind == "timed_out" and 30.0 <= ranks.seconds < 31.0


def test_enough_steps_end_a_run_in_order(tmp_path: Path) -> None:
    outcome, ranks = supervised(tmp_path, COMPUTING, COMPUTING, spec=replace(SPEC, enough_steps=20))
    assert outcome.kind == "enough" and all(view.steps >= 20 for view in ranks.views())


def test_a_rank_that_left_while_another_waits_for_it_is_found(tmp_path: Path) -> None:
    gone = Part((Move(0.1, "optimizer", 5, 5),), Exit(0, None, 0.5))
    waits = Part((Move(0.2, "in a collective", 5, 6),), stack=IN_COLLECTIVE)
    outcome, _ = supervised(tmp_path, waits, gone)
    assert (outcome.kind, outcome.first_failed_rank) == ("left_early", 1)


def test_the_wish_to_stop_interrupts_it(tmp_path: Path) -> None:
    assert supervised(tmp_path, COMPUTING, stop_at=2)[0].kind == "interrupted"


def test_ranks_that_cannot_be_started_are_an_outcome(tmp_path: Path) -> None:
    outcome = run_one(SPEC, RunFolder(tmp_path), FakeLauncher(lambda _: ()), lambda *_: None, lambda: False)
    assert (outcome.kind, outcome.sentence, outcome.hint) == (
        "not_started",
        "nobody is here to start it",
        "hire somebody",
    )
