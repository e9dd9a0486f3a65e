"""Tests of the check for stages of which only one works at a time."""

import pytest
from case_factory import Sheet, make_case
from stage_sheets import stage

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.one_device_at_a_time import examine
from scalewise.doctor.queries.ranks import chains
from scalewise.records.examination import StagesRow

SEQUENTIAL = "FsrB" * 3
FILLED = "FsFsFsrBrBrB"
ONE_AND_ONE = "FsFsrBFsrBrB"


def on_devices(*rows, batch=8):
    """A script whose steps had these turns, whether chained, whether repeated."""
    sheet = Sheet()
    for number, (devices, chained, repeated) in enumerate(rows):
        sheet.window(forward={"rows": batch})
        sheet.row(StagesRow(number + 1, sheet.place("out = model(x)"), devices, chained, repeated))
    return make_case(sheet, wrapped=False)


def test_chained_turns_in_one_piece_are_found():
    row = (("cuda:0", "cuda:1", "cuda:2"), True, False)
    (finding,) = examine(on_devices(row, row, row))
    assert (finding.severity, finding.proof) == ("slow", "observed")
    assert "3 devices" in finding.sentence and "67%" in finding.sentence
    assert finding.price.value == pytest.approx(2 / 3) and finding.price.how.startswith("computed")
    assert finding.where.text == "out = model(x)"


@pytest.mark.parametrize(("chained", "repeated"), [(False, False), (True, True)])
def test_branches_and_split_batches_are_passed_over(chained, repeated):
    right, wrong = (("cuda:0", "cuda:1"), chained, repeated), (("cuda:0", "cuda:1"), True, False)
    assert examine(on_devices(right, right)) == ()
    assert examine(on_devices(wrong, right, wrong)) == ()


def test_a_single_row_cannot_be_split():
    row = (("cuda:0", "cuda:1"), True, False)
    assert examine(on_devices(row, row, batch=1)) == ()
    assert examine(on_devices(row)) == ()  # one pass says little


def test_a_pipeline_that_waits_for_each_piece_is_found():
    case = make_case(stage(SEQUENTIAL, ahead=1), stage("RFBS" * 3, behind=0), wrapped=False)
    (finding,) = examine(case)
    assert finding.sentence.startswith("Ranks 0 and 1 are 2 stages")
    assert finding.where.text == "dist.recv(tensor, 1)"
    assert finding.ranks == (0, 1)


@pytest.mark.parametrize("letters", [FILLED, ONE_AND_ONE])
def test_pieces_in_flight_are_right(letters):
    case = make_case(stage(letters, ahead=1), stage("RFBS" * 3, behind=0), wrapped=False)
    assert len(chains(case)) == 1
    assert examine(case) == ()


def test_two_calls_of_modules_are_one_piece():
    case = make_case(stage("FFsrB" * 3, ahead=1), stage("RFFBS" * 3, behind=0), wrapped=False)
    assert len(examine(case)) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("FBs", "RFB"), ("sFrB", "SFRB"), ("FsB", "RFB"), ("rFBs", "SRFB"), ("FB", "FB")],
)
def test_other_messages_are_no_pipeline(first, second):
    case = make_case(stage(first, ahead=1), stage(second, behind=0), wrapped=False)
    with pytest.raises(Abstain, match="several devices"):
        examine(case)
