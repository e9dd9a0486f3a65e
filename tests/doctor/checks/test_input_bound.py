"""Tests of the check for loops that wait for their data."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case
from data_sheets import LINE, MILLISECOND, loader_of, replay, two

from factories import quiet_sample
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.input_bound import examine, settle
from scalewise.records.examination import LoadingRow
from scalewise.records.notes import BackwardNote, BatchNote, ForwardNote, LoaderNote, StepNote
from scalewise.records.spec import Change

QUIET = (quiet_sample(),)
BUSY = (quiet_sample(foreign=0.6, pressure=0.8),)


def loop(waits_ms, rest_ms=5.0, *, epoch=None, evaluates=False, **loader):
    """One step per wait, each with so much work besides; a new epoch every so many steps."""
    sheet = loader_of(Sheet(), **loader)
    at = 0.0

    def note(kind, milliseconds, **values):
        nonlocal at
        at += milliseconds
        sheet.add(kind, at_ns=int(at * MILLISECOND), **values)

    for number, wait in enumerate(waits_ms):
        if number % (epoch or len(waits_ms)) == 0:
            note(LoaderNote, 0)
        if evaluates:
            note(BatchNote, 50, loader=1, wait_ns=50 * MILLISECOND)
            note(ForwardNote, 0, trains=False)
        note(BatchNote, wait, wait_ns=int(wait * MILLISECOND))
        note(ForwardNote, rest_ms / 2)
        note(BackwardNote, rest_ms / 4)
        note(StepNote, rest_ms / 4)
    return sheet


def test_a_wait_of_most_of_the_step_is_found_and_priced():
    (finding,) = examine(make_case(loop([15.0] * 12), ranks=2))
    assert finding.severity == "slow" and finding.proof == "observed"
    assert "15.0 ms of 20.0 ms" in finding.sentence and "75%" in finding.sentence
    assert finding.price.value == pytest.approx(15.0) and finding.price.unit == "ms per step"
    assert finding.where.text == LINE
    assert finding.fix == LINE[:-1] + ", num_workers=2, persistent_workers=True)"
    assert "no workers" in finding.evidence[1]


def test_more_workers_are_advised_where_there_are_some():
    (finding,) = examine(make_case(loop([15.0] * 12, workers=2)))
    assert "num_workers=4" in finding.fix and "2 workers" in finding.evidence[1]


def test_no_workers_are_no_fault_where_nothing_is_waited_for():
    assert examine(make_case(loop([0.1] * 12), ranks=2)) == ()


def test_a_short_wait_in_a_short_step_does_not_matter():
    assert examine(make_case(loop([0.8] * 12, rest_ms=1.0), ranks=2)) == ()


def test_a_quarter_of_the_step_is_the_limit():
    assert examine(make_case(loop([1.5] * 12, rest_ms=5.0), ranks=2)) == ()
    assert examine(make_case(loop([2.0] * 12, rest_ms=5.0), ranks=2, samples=QUIET))


def test_on_a_busy_machine_a_wait_must_be_long_in_quick_steps_too():
    assert examine(make_case(loop([2.0] * 12, rest_ms=5.0), ranks=2, samples=BUSY)) == ()
    assert examine(make_case(loop([0.5, 9.0, 9.0] * 6, rest_ms=5.0), ranks=2, samples=BUSY)) == ()
    assert examine(make_case(loop([9.0] * 12, rest_ms=5.0), ranks=2, samples=BUSY))


def test_a_few_slow_batches_are_no_rule():
    assert examine(make_case(loop([0.1, 0.1, 0.1, 40.0] * 5), ranks=2)) == ()


def test_bursts_of_workers_are_averaged():
    (finding,) = examine(make_case(loop([0.0, 30.0] * 8, workers=2)))
    assert finding.price.value == pytest.approx(15.0)


def test_the_start_of_an_epoch_is_left_out():
    assert examine(make_case(loop([200.0, 0.1, 0.1, 0.1] * 5, epoch=4), ranks=2)) == ()


def test_steps_with_an_evaluation_are_left_out():
    with pytest.raises(Abstain):
        examine(make_case(loop([0.1] * 12, evaluates=True), ranks=2))


def test_one_rank_that_waits_alone_is_a_straggler():
    assert examine(two(loop([15.0] * 12), loop([0.1] * 12))) == ()


def test_a_gpu_may_have_work_while_the_host_waits():
    (finding,) = examine(make_case(loop([15.0] * 12), model={"devices": ("cuda:0",)}))
    assert finding.proof == "suspected"


def test_too_few_steps_say_nothing():
    with pytest.raises(Abstain):
        examine(make_case(loop([15.0] * 4), ranks=2))
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(9, batch=False), ranks=2))


def test_the_replay_gives_the_price_or_doubt():
    case = make_case(loop([15.0] * 12), ranks=2)
    (finding,) = examine(case)
    settled = settle(case, finding, replay("cached_input", case, case, saved=(14.0, 13.0, 15.0)))
    assert settled.proof == "replayed" and settled.price.value == 14.0
    assert settle(case, finding, replay("cached_input", case, case, saved=(-1.0, -2.0, -0.5))).proof == "suspected"
    assert settle(case, finding, replay("cached_input", case, case, saved=(0.3, 0.1, 0.5))).proof == "suspected"
    assert settle(case, finding, replay("cached_input", case, case, applied=0)) == finding


def swept(case, finding, count, saved, trouble=""):
    shown = replay("workers", case, case, saved=saved, trouble=trouble)
    return settle(case, finding, replace(shown, change=Change("workers", {"count": count})))


def test_the_smallest_number_of_workers_that_is_as_good_as_the_best_becomes_the_fix():
    case = make_case(loop([15.0] * 12), ranks=2)
    (finding,) = examine(case)
    for count, saved in ((1, (8.0, 7.0, 9.0)), (2, (12.0, 11.0, 14.0)), (4, (13.0, 12.0, 14.0))):
        finding = swept(case, finding, count, saved)
    assert "num_workers=2, persistent_workers=True" in finding.fix and "enough" in finding.fix
    assert [one.milliseconds.value for one in finding.tried] == [8.0, 12.0, 13.0]
    assert any("num_workers=4" in fact for fact in finding.evidence)


def test_workers_that_do_not_help_or_do_not_run_leave_the_fix_as_it_was():
    case = make_case(loop([15.0] * 12), ranks=2)
    (finding,) = examine(case)
    slower = swept(case, finding, 2, (-1.0, -2.0, 0.5))
    assert slower.fix == finding.fix and "1 ms more" in slower.evidence[-1]
    failed = swept(case, finding, 2, None, trouble="rank 0 raised")
    assert failed.fix == finding.fix and "did not run: rank 0 raised" in failed.evidence[-1]


def test_numbers_of_workers_are_tried_up_to_the_cores_and_never_for_streams():
    (finding,) = examine(make_case(loop([15.0] * 12, workers=2), ranks=2))
    counts = [one.settings["count"] for one in finding.sweep]
    assert 2 not in counts and 1 in counts
    (stream,) = examine(make_case(loop([15.0] * 12, iterable=True), ranks=2))
    assert stream.sweep == ()


def test_what_a_batch_is_spent_on_is_evidence():
    sheet = loop([15.0] * 12).row(LoadingRow(0, -1, 1, 9 * MILLISECOND, MILLISECOND))
    (finding,) = examine(make_case(sheet.row(LoadingRow(0, -1, 2, 24 * MILLISECOND, 2 * MILLISECOND))))
    assert any("decode 12.0 ms, collate 1.00 ms, in the training process itself" in fact for fact in finding.evidence)
    assert finding.evidence[-1] == "no copy: the batch stays on the CPU"
