"""Tests of an examined run as the checks read it."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_loader, make_sums, make_use, make_wrapper

from scalewise.doctor.case import Abstain, case_of
from scalewise.records.notes import BackwardNote, ForwardNote


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
