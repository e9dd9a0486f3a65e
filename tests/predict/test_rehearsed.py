"""A rehearsed run is read back as tapes of its settled steps, and what it leaves out is said."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_outcome, make_run
from scalewise.predict.rehearsed import NotRehearsed, rehearsed
from scalewise.predict.tape import Compute, Issue, Wait
from scalewise.records.rehearsal import SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.rows import MemoryRow
from scalewise.records.spec import Rehearsed

MS = 10**6
BUCKETS = (("all_reduce", 4000, 8), ("all_reduce", 2000, 8))
DDP = (
    ("forward", -1, 0),
    ("backward", -1, 10 * MS),
    ("issue", 0, 15 * MS),
    ("issue", 1, 20 * MS),
    ("wait", 0, 20 * MS),
    ("wait", 1, 22 * MS),
    ("own", -1, 23 * MS),
    ("optimizer", -1, 23 * MS),
    ("end", -1, 25 * MS),
)


def taped(step, slower=1, messages=BUCKETS, outside=(), marks=DDP):
    return TapeRow(step, tuple((what, n, at * slower) for what, n, at in marks), messages, "host", outside)


def run_with(*by_process, steps=6, **changes):
    """A rehearsal in which each process left these rows."""
    run = make_run([[0.025] * steps] * len(by_process), len(by_process), kind=Rehearsed(8, 2, 4), **changes)
    ranks = [replace(rank, rehearsal=tuple(rows)) for rank, rows in zip(run.ranks, by_process, strict=True)]
    return replace(run, ranks=tuple(ranks))


def test_marks_become_computing_messages_and_waits_in_order():
    found = rehearsed(run_with([taped(step) for step in range(6)]))
    assert len(found.tapes) == 3  # the first three warm up
    entries = found.typical.entries
    assert [type(one) for one in entries] == [
        *(Compute, Compute, Issue, Compute, Issue, Wait),
        *(Compute, Wait, Compute, Compute),
    ]
    assert [one.seconds for one in entries if isinstance(one, Compute)] == pytest.approx(
        [0.010, 0.005, 0.005, 0.002, 0.001, 0.002]
    )
    phases = [one.phase for one in entries if isinstance(one, Compute)]
    assert phases == ["forward", "backward", "backward", "backward", "backward", "optimizer"]
    assert found.typical.messages == (Issue(0, "all_reduce", 4000, 8), Issue(1, "all_reduce", 2000, 8))
    assert (found.ranks, found.rank, found.company, found.typical.samples) == (8, 2, 1, 64)
    assert found.between_seconds == pytest.approx(2e-6)


def test_a_message_knows_over_how_many_nodes_its_group_lies():
    rows = [replace(taped(step), nodes=(0, 2)) for step in range(6)]
    assert [one.nodes for one in rehearsed(run_with(rows)).typical.messages] == [0, 2]


def test_of_those_in_company_the_slowest_of_every_step_counts():
    found = rehearsed(run_with([taped(step, 1 + step % 2) for step in range(6)], [taped(step) for step in range(5)]))
    assert found.company == 2
    assert [one.compute_seconds for one in found.tapes] == pytest.approx([0.050, 0.025])  # steps 3 and 4
    each = [[one.compute_seconds for one in tapes] for tapes in found.by_process]
    assert each == [pytest.approx([0.050, 0.025]), pytest.approx([0.025, 0.025])]


def test_messages_between_steps_are_waited_for_before_the_step_and_what_lies_there_counts():
    found = rehearsed(run_with([taped(step, outside=(("all_reduce", 8, 8), ("barrier", 0, 8))) for step in range(6)]))
    (tape,), own = found.tapes, len(BUCKETS)
    between = (Issue(own, "all_reduce", 8, 8), Wait(own), Issue(own + 1, "barrier", 0, 8), Wait(own + 1))
    assert tape.entries[:5] == (*between, Compute(pytest.approx(3e-6)))
    assert tape.steps == 3
    assert [one.kind for one in tape.messages] == ["all_reduce", "barrier", "all_reduce", "all_reduce"] * 3
    assert len({one.number for one in tape.messages}) == 12
    assert tape.compute_seconds == pytest.approx(0.025 + 3e-6)
    assert found.between_seconds == 0  # it is on tape
    assert "from the end of the one before" in found.remarks[0]


def test_steps_that_send_something_else_than_others_are_kept_as_they_come():
    marks = (*DDP[:-1], ("issue", 2, 24 * MS), ("wait", 2, 24 * MS), DDP[-1])
    odd = taped(4, messages=(*BUCKETS, ("barrier", 0, 8)), marks=marks)
    found = rehearsed(run_with([odd if step == 4 else taped(step) for step in range(7)], steps=7))
    assert found.uneven and found.typical.steps == 4
    assert [one.kind for one in found.typical.messages].count("barrier") == 1
    assert found.typical.samples == 64


def in_turns(run, optimizers=2):
    """The same run, but another optimizer ends each step."""
    ranks = [
        replace(rank, steps=tuple(replace(row, optimizer=row.step % optimizers) for row in rank.steps))
        for rank in run.ranks
    ]
    return replace(run, ranks=tuple(ranks))


def test_steps_of_optimizers_that_take_turns_are_one_step():
    rows = [taped(step, 1 + step % 2, messages=BUCKETS if step % 2 else BUCKETS[::-1]) for step in range(9)]
    found = rehearsed(in_turns(run_with(rows, steps=9)))
    assert not found.uneven and [tape.steps for tape in found.tapes] == [1, 1]  # 4 and 5, 6 and 7: 8 is alone
    assert [one.size_bytes for one in found.typical.messages] == [2000, 4000, 4000, 2000]
    assert len({one.number for one in found.typical.messages}) == 4
    assert found.typical.compute_seconds == pytest.approx(0.025 + 3e-6 + 0.050)  # with what lies between the two
    assert (found.typical.samples, found.typical.micro_batches) == (64, 2)


def test_messages_between_the_steps_of_an_iteration_belong_to_it():
    rows = [taped(step, outside=(("broadcast", 8, 8),) if step % 2 else ()) for step in range(8)]
    found = rehearsed(in_turns(run_with(rows, steps=8)))
    assert not found.uneven
    assert [one.kind for one in found.typical.messages] == [*["all_reduce"] * 2, "broadcast", *["all_reduce"] * 2]


def test_an_iteration_that_was_cut_off_says_nothing_of_the_others():
    between = ("broadcast", 8, 8)
    rows = [taped(step, outside=(between,) if step % 3 else ()) for step in range(11)]  # 9 and 10 are cut off
    found = rehearsed(in_turns(run_with(rows, steps=11), optimizers=3))
    assert not found.uneven and len(found.tapes) == 2


def test_iterations_that_begin_with_a_message_are_uneven_and_count_as_whole_iterations():
    rows = [taped(step, outside=() if step % 2 else (("broadcast", 8, 8),)) for step in range(8)]
    found = rehearsed(in_turns(run_with(rows, steps=8)))
    assert found.uneven and found.typical.steps == 2  # iterations, of two steps each
    assert found.typical.compute_seconds == pytest.approx(2 * (0.025 + 3e-6))


def test_ranks_that_differ_from_each_other_in_every_step_are_even():
    first, last = ([taped(step, messages=sent) for step in range(6)] for sent in (BUCKETS, BUCKETS[::-1]))
    assert not rehearsed(run_with(first, last)).uneven


@pytest.mark.parametrize("outside", [False, True])
def test_a_rank_that_receives_is_said_to_be_a_lower_bound(outside):
    recv = ("recv", 100, 8)
    rows = [
        taped(step, messages=BUCKETS if outside else (BUCKETS[0], recv), outside=(recv,) if outside else ())
        for step in range(6)
    ]
    assert "lower bound" in rehearsed(run_with(rows)).left_out[-1]


def test_a_plain_step_leaves_nothing_out():
    assert rehearsed(run_with([taped(step) for step in range(6)])).left_out == ()


def test_what_was_looked_at_and_what_was_missing_goes_along():
    steered, missing = SteeredRow("item", "all_reduce", "train.py", 3, "x.item()"), UnrehearsedRow("objects", "none")
    found = rehearsed(run_with([*(taped(step) for step in range(6)), steered, missing]))
    assert (found.steered, found.unrehearsed) == ((steered,), (missing,))


def test_the_peak_is_the_devices_where_there_is_one():
    run = run_with([taped(step) for step in range(6)])
    row = MemoryRow(1, 5000, 0, 0, 0, 0, None, None, None, None)
    on_cpu = replace(run, ranks=(replace(run.ranks[0], memory=(row, replace(row, peak_rss_bytes=7000))),))
    assert rehearsed(on_cpu).peak_bytes == 7000
    on_gpu = replace(run, ranks=(replace(run.ranks[0], memory=(replace(row, cuda_peak_allocated_bytes=300),)),))
    assert rehearsed(on_gpu).peak_bytes == 300
    assert rehearsed(run).peak_bytes is None


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (make_run([0.1] * 5), "no rehearsal"),
        (run_with([], outcome=make_outcome("failed", "Rank 0 failed.")), "Rank 0 failed."),
        (run_with([taped(step) for step in range(3)], steps=3), "fewer than four steps"),
        (run_with([]), "fewer than four steps"),
    ],
)
def test_a_run_without_tapes_says_why(run, reason):
    found = rehearsed(run)
    assert isinstance(found, NotRehearsed)
    assert reason in found.reason


@given(st.lists(st.tuples(st.sampled_from(["forward", "backward", "own", "optimizer"]), st.integers(0, MS))))
def test_a_tape_takes_as_long_as_its_last_mark_says_whatever_the_marks_are(marks):
    rows = [taped(step, messages=(), marks=tuple((what, -1, at) for what, at in marks)) for step in range(6)]
    found = rehearsed(run_with(rows))
    assert found.typical.compute_seconds == pytest.approx(max((at for _, at in marks), default=0) * 1e-9)
