"""Tests of the check for losses kept with their graphs."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.losses_kept import examine
from scalewise.records.notes import KeptNote


def kept(*looks, micro_batches=1):
    """Steps with these looks: step, graphs, bytes."""
    sheet = Sheet()
    for number in range(1, looks[-1][0] + 1):
        sheet.window(micro_batches)
        for step, graphs, *held in looks:
            if step == number:
                sheet.add(KeptNote, step=step, graphs=graphs, seen=step * micro_batches, held_bytes=held and held[0])
    return make_case(sheet, ranks=2)


def test_graphs_that_grow_with_the_steps_are_found_and_priced():
    (finding,) = examine(kept((1, 1, 900), (2, 2, 1000), (4, 4, 1100), (8, 8, 5100)))
    assert (finding.severity, finding.proof, finding.ranks) == ("slow", "observed", (0, 1))
    assert finding.sentence.startswith("The graphs of 8 losses of 8 are still held after 8 steps")
    assert (finding.price.value, finding.price.unit) == (1000.0, "bytes")


def test_a_sum_that_begins_anew_with_each_epoch_is_found():
    (finding,) = examine(kept((4, 4), (8, 8), (16, 12), (32, 12)))
    assert "12 losses" in finding.sentence
    assert finding.price is None


@pytest.mark.parametrize("looks", [[(8, 1)], [(4, 4), (8, 4)], [(8, 5), (16, 6)], [(1, 1), (8, 2)]])
def test_the_last_loss_and_a_few_more_are_no_growth(looks):
    assert examine(kept(*looks)) == ()


def test_a_window_may_hold_the_graphs_of_its_own_micro_batches():
    assert examine(kept((4, 16), (8, 16), micro_batches=16)) == ()
    assert len(examine(kept((4, 64), (8, 128), micro_batches=16))) == 1


def test_it_abstains_without_steps_or_looks():
    with pytest.raises(Abstain, match="needs 6"):
        examine(kept((2, 2)))
    with pytest.raises(Abstain, match="followed"):
        examine(make_case(Sheet().windows(8)))
