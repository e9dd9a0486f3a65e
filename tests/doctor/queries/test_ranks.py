"""Tests of the order of collectives: ranks that did alike are never taken apart."""

import pytest
from case_factory import Sheet, make_case
from hypothesis import given
from hypothesis import strategies as st
from stage_sheets import stage

from scalewise.doctor.queries.ranks import BACKWARD, Operation, chains, first_mismatch, waiting_share
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import CollectiveDoneNote, StepNote

OPERATIONS = st.builds(
    Operation,
    name=st.sampled_from(["all_reduce", "barrier", "broadcast", BACKWARD]),
    size_bytes=st.sampled_from([0, 4, 4096]),
    place=st.builds(PlaceRow, st.just(0), st.just("/train.py"), st.integers(1, 9), st.just("main"), st.just("")),
)


@given(st.lists(OPERATIONS), st.integers(0, 20))
def test_a_rank_that_is_only_behind_is_not_apart(operations, length):
    assert first_mismatch({0: operations, 1: operations[:length], 2: list(operations)}) is None


@given(st.lists(OPERATIONS), st.lists(OPERATIONS))
def test_ranks_go_apart_at_another_operation_and_nowhere_before(common, later):
    here = first_mismatch(
        {0: [*common, Operation("barrier", 0, None), *later], 1: [*common, Operation("reduce", 0, None), *later]}
    )
    assert here is not None and {one.name for one in here.values()} == {"barrier", "reduce"}


def test_a_size_that_is_not_known_fits_any():
    known, unknown = Operation("all_reduce", 4096, None), Operation("all_reduce", 0, None)
    assert known.matches(unknown) and unknown.matches(known)
    assert not known.matches(Operation("all_reduce", 8, None))
    assert Operation("all_gather", 8, None).matches(Operation("all_gather", 16, None))


def test_three_stages_are_one_chain():
    middle = stage("RFsrBS" * 2, ahead=2, behind=0)
    case = make_case(stage("FsrB" * 2, ahead=1), middle, stage("RFBS" * 2, behind=1), wrapped=False)
    (chain,) = chains(case)
    assert [rank.rank for rank in chain.ranks] == [0, 1, 2]
    assert chain.in_flight == 1


def test_the_share_of_waiting_is_measured_between_steps():
    sheet = Sheet()
    for step in range(4):
        sheet.add(CollectiveDoneNote, operation="recv", duration_ns=600, at_ns=1000 * step + 900)
        sheet.add(StepNote, at_ns=1000 * step + 1000)
    assert waiting_share(make_case(sheet).first) == pytest.approx(0.6)
    assert waiting_share(make_case(Sheet().windows(1)).first) is None
