"""Tests of the pipelines that are read from the order of messages."""

import pytest
from case_factory import Sheet, make_case
from stage_sheets import stage

from scalewise.doctor.pipeline_ranks import chains, waiting_share
from scalewise.records.notes import CollectiveDoneNote, StepNote


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
