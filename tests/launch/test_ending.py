"""Which kind of end it was and who came to it first, from made-up evidence."""

import json
from typing import Any

import pytest

from scalewise.launch.ending import Cause, Ending, find_cause, outcome_of
from scalewise.launch.failure_logs import RankEvidence
from scalewise.launch.verdict import Exit, RankView, Verdict
from scalewise.records.codec import decode, encode
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Rehearsed

WAITS = ('File "/site/torch/distributed/distributed_c10d.py", line 1 in all_reduce', 'File "train.py", line 9 in main')
WORKS = ('File "train.py", line 5 in work',)


def ending(verdict: Verdict | None = Verdict("over"), **changes: Any) -> Ending:  # noqa: B008
    return Ending(verdict, 0.1, 9.0, stall_seconds=10.0, limit_seconds=60.0, **changes)


def rank(number: int, end: Exit | None, **changes: Any) -> RankEvidence:
    syncs = changes.pop("syncs", 0)
    return RankEvidence(RankView(number, end, 1.0, "forward", syncs=syncs), changes.pop("stderr", ""), **changes)


def ok(number: int, at_seconds: float = 5.0, **changes: Any) -> RankEvidence:
    return rank(number, Exit(0, None, at_seconds), **{"steps": 3, **changes})


def test_all_ranks_in_order_with_steps_have_finished() -> None:
    assert find_cause([ok(0), ok(1)], ending()) == Cause("finished")
    assert find_cause([ok(0, steps=0), ok(1, steps=0)], ending()) == Cause("no_steps")


def test_an_abort_after_the_last_row_is_no_failure() -> None:
    aborted = rank(1, Exit(None, "SIGABRT", 6.0), steps=3, finished_rows=True)
    outcome = outcome_of([ok(0), aborted], ending(), ())
    assert (outcome.kind, outcome.first_failed_rank, outcome.measured) == ("aborted_at_exit", 1, True)


def test_a_process_that_was_rehearsed_goes_by_the_rank_that_it_stood_for() -> None:
    died = rank(1, Exit(1, None, 5.0), stderr="Traceback (most recent call last):\nValueError: last\n")
    outcome = outcome_of([ok(0), died], ending(rehearse=Rehearsed(world_size=8, rank=6, ranks_per_node=8)), ())
    assert outcome.sentence == "rank 7 of 8 raised ValueError: last"
    assert outcome.first_failed_rank == 1  # the process, whose files have that number


def test_an_abort_before_the_last_row_is_a_failure() -> None:
    aborted = rank(1, Exit(None, "SIGABRT", 6.0), steps=3)
    assert find_cause([ok(0), aborted], ending()) == Cause("killed", 1)


def test_a_secondary_failure_is_not_blamed_even_when_it_came_first() -> None:
    secondary = rank(0, Exit(1, None, 5.0, secondary=True))
    assert find_cause([secondary, rank(1, Exit(None, "SIGSEGV", 5.1))], ending()) == Cause("killed", 1)


def test_secondary_failures_alone_blame_the_rank_that_had_left_in_order() -> None:
    secondary = rank(0, Exit(1, None, 5.0, secondary=True))
    assert find_cause([secondary, ok(1, 4.9)], ending()) == Cause("left_early", 1)


def test_secondary_failures_alone_blame_the_rank_that_never_answered() -> None:
    secondary = rank(0, Exit(1, None, 5.0, secondary=True))
    assert find_cause([secondary, rank(1, None, stack=WORKS)], ending(Verdict("failed"))) == Cause("hung", 1)


def test_when_all_failures_are_secondary_the_first_is_named() -> None:
    ends = [rank(number, Exit(1, None, 6.0 - number, secondary=True)) for number in (0, 1)]
    assert find_cause(ends, ending()) == Cause("raised", 1)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[rank1]: MemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_out_of_memory_is_known_by_what_was_said(text: str) -> None:
    assert find_cause([rank(0, Exit(1, None, 5.0), stderr=text)], ending()) == Cause("out_of_memory", 0)


def test_a_sigkill_is_out_of_memory_when_the_kernel_killed_for_memory_meanwhile() -> None:
    killed = rank(0, Exit(None, "SIGKILL", 5.0))
    assert find_cause([killed], ending()) == Cause("killed", 0)
    assert find_cause([killed], ending(memory_kills=1)) == Cause("out_of_memory", 0)


def test_a_standstill_is_blamed_on_the_rank_outside_the_collective() -> None:
    ranks = [rank(0, None, stack=WAITS), rank(1, None, stack=WORKS), rank(2, None, stack=WAITS)]
    outcome = outcome_of(ranks, ending(Verdict("hung")), ())
    assert (outcome.kind, outcome.first_failed_rank) == ("hung", 1)
    assert WORKS[0] in outcome.sentence


def test_a_standstill_of_waiting_ranks_is_blamed_on_the_one_behind_or_on_nobody() -> None:
    waiting = [rank(number, None, stack=WAITS, syncs=4 - number) for number in (0, 1)]
    assert find_cause(waiting, ending(Verdict("hung"))) == Cause("hung", 1)
    alike = [rank(number, None, stack=WAITS) for number in (0, 1)]
    outcome = outcome_of(alike, ending(Verdict("hung")), ())
    assert (outcome.first_failed_rank, "wait for each other" in outcome.sentence) == (None, True)


def test_ranks_that_stand_still_in_their_own_code_are_not_said_to_wait_for_each_other() -> None:
    outcome = outcome_of([rank(number, None, stack=WORKS) for number in (0, 1)], ending(Verdict("hung")), ())
    assert (outcome.kind, outcome.first_failed_rank) == ("hung", None)
    assert "none waits for another" in outcome.sentence and "same collectives" not in outcome.hint


def test_a_standstill_after_a_rank_has_left_is_its_leaving_early() -> None:
    assert find_cause([rank(0, None, stack=WAITS), ok(1)], ending(Verdict("hung"))) == Cause("left_early", 1)


def test_records_that_could_not_be_written_are_not_a_measurement() -> None:
    outcome = outcome_of([ok(0, trouble="OSError: [Errno 28] No space left on device")], ending(), ())
    assert (outcome.kind, outcome.measured) == ("raised", False)
    assert "no space left" in outcome.sentence


def test_an_interruption_is_nobodys_fault() -> None:
    assert find_cause([rank(0, None)], ending(None)) == Cause("interrupted")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("OSError: [Errno 98] Address already in use", "MASTER_PORT"),
        ("ModuleNotFoundError: No module named 'torchvision.ops'", "install torchvision"),
        ("OSError: [Errno 28] No space left on device", "free some space"),
    ],
)
def test_a_known_error_gets_its_own_hint(text: str, hint: str) -> None:
    assert hint in outcome_of([rank(0, Exit(1, None, 5.0), stderr=text)], ending(), ()).hint


def test_a_hang_names_the_line_of_the_rank_that_the_others_wait_for() -> None:
    outcome = outcome_of([rank(0, None, stack=WAITS), rank(1, None, stack=WORKS)], ending(Verdict("hung")), ())
    assert 'rank 1 of 2 is not where the others wait, but at File "train.py", line 5 in work' in outcome.sentence


def test_a_script_that_refuses_in_a_sentence_is_quoted() -> None:
    said = "note\nBATCH=63 cannot be shared evenly; try BATCH=62.\n\n"
    outcome = outcome_of([rank(0, Exit(1, None, 5.0), stderr=said)], ending(), ())
    assert outcome.sentence == "rank 0 of 1 ended with exit code 1: BATCH=63 cannot be shared evenly; try BATCH=62."
    assert "stderr log" in outcome.hint


def test_a_run_that_was_ended_because_it_had_enough_steps_is_a_measurement() -> None:
    outcome = outcome_of([rank(0, None, steps=30), rank(1, None, steps=31)], ending(Verdict("enough")), ())
    assert (outcome.kind, outcome.first_failed_rank, outcome.measured) == ("enough", None, True)
    assert outcome.sentence == "ended after 31 steps, which were enough"


def test_the_exception_of_each_rank_is_kept_by_itself() -> None:
    said = "Traceback (most recent call last):\n  File ...\n[rank1]: KeyError: 'RANK'\n"
    failed = rank(1, Exit(1, None, 2.0), stderr=said)
    outcome = outcome_of([ok(0), failed], ending(Verdict("failed")), ())
    assert outcome.first_failed is not None and outcome.first_failed.exception == "KeyError"
    assert outcome.first_failed.raised == "KeyError: 'RANK'" and not outcome.ranks[0].exception


def test_an_outcome_that_was_written_without_the_exception_is_still_read() -> None:
    written = outcome_of([rank(0, Exit(1, None, 2.0))], ending(Verdict("failed")), ())
    outcome = json.loads(json.dumps(encode(written)))
    for end in outcome["ranks"]:
        del end["raised"]
    assert decode(Outcome, outcome).ranks[0].exception == ""
