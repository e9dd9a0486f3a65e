"""Tests of an examined run as the checks read it."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_loader, make_sums, make_use, make_wrapper
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain, case_of, windows_of
from scalewise.records.notes import BackwardNote, ForwardNote, StepNote


def test_a_case_gathers_rows_by_kind():
    sheet = Sheet().windows(3, 2).row(make_use(steps_looked_at=2)).row(make_use(steps_looked_at=5))
    sheet.row(make_loader()).row(make_sums(1)).row(make_sums(2))
    case = make_case(sheet, ranks=2)
    rank = case.first
    assert [use.steps_looked_at for use in rank.uses] == [5], "the last of a wrapper counts"
    assert [row.step for row in rank.sums] == [1, 2] and len(rank.loaders) == len(rank.wrappers) == 1
    assert case.world_size == 2 and len(rank.windows) == 3 and len(rank.record.steps) == 3
    assert len(rank.all(BackwardNote)) == len(rank.all(ForwardNote)) == 6


def test_a_note_knows_its_line():
    case = make_case(Sheet().forward().backward(line="(loss / 4).backward()").step())
    place = case.first.place(case.first.windows[0].backwards[0])
    assert place is not None and (place.text, place.line) == ("(loss / 4).backward()", 2)
    assert case.first.place(None) is None


def test_only_wrappers_that_train_are_named():
    sheet = Sheet().forward(wrapper=1).backward().step().forward(wrapper=0, trains=False)
    sheet.row(make_wrapper(0)).row(make_wrapper(1)).row(make_wrapper(2, wrapper="DataParallel"))
    assert [row.index for row in make_case(sheet).trained_wrappers()] == [1]


def test_too_few_windows_abstain():
    case = make_case(Sheet().window())
    assert len(case.windows(1)) == 1
    with pytest.raises(Abstain, match="needs 2 optimizer steps, saw 1"):
        case.windows()


def test_a_rank_without_notes_is_left_out():
    case = make_case(Sheet().window(), ranks=2)
    silent = replace(case.run.ranks[0], notes=(), examination=())
    assert [rank.rank for rank in case_of(replace(case.run, ranks=(silent, case.run.ranks[1]))).ranks] == [1]
    with pytest.raises(Abstain, match="no rank left notes"):
        _ = case_of(replace(case.run, ranks=())).first


def test_a_window_ends_with_its_step_and_the_rest_is_kept():
    sheet = Sheet().window(2).window(2).micro_batch()
    windows, rest = windows_of(sheet.notes)
    assert [len(window.backwards) for window in windows] == [2, 2]
    assert [window.number for window in windows] == [0, 1] and rest.number == 2
    assert len(windows[1].zeros) == 1, "what follows a step belongs to the next window"
    assert rest.step is None and len(rest.backwards) == 1 and windows[0].step is not None


def test_a_window_tells_its_calls_apart():
    sheet = Sheet().batch().forward(trains=False).forward().scaler("scale").backward().scaler("unscale_").clip()
    window = windows_of(sheet.collective().step().notes)[0][0]
    counts = [window.forwards, window.backwards, window.scaler, window.clips, window.collectives, window.batches]
    assert [len(one) for one in counts] == [1, 1, 2, 1, 1, 1], "an evaluation is no forward pass that trains"


def test_no_notes_are_no_window():
    windows, rest = windows_of(())
    assert windows == () and rest.notes == () and rest.step is None


@given(st.lists(st.sampled_from(["forward", "backward", "zero", "step", "batch"]), max_size=40))
def test_nothing_is_lost_and_each_window_has_one_step(calls):
    sheet = Sheet()
    for call in calls:
        getattr(sheet, call)()
    windows, rest = windows_of(sheet.notes)
    assert [note for window in (*windows, rest) for note in window.notes] == sheet.notes
    assert all(len(window.all(StepNote)) == 1 for window in windows) and not rest.all(StepNote)
