"""Placements are read from digits or sums, and say what is wrong with a text that is neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.errors import BadRequest
from scalewise.predict.placement import Placement, even_placement, read_placement


def test_digits_are_nodes_and_sums_have_larger_ones():
    assert read_placement("1124") == Placement((1, 1, 2, 4))
    assert read_placement("16+8") == Placement((8, 16))
    assert (Placement((1, 1, 2, 4)).gpus, Placement((1, 1, 2, 4)).nodes, Placement((1, 1, 2, 4)).busiest) == (8, 4, 4)


def test_a_placement_is_told_in_words():
    assert Placement((1,)).text == "1 GPU"
    assert Placement((8,)).text == "8 GPUs"
    assert Placement((8, 8)).text == "2 nodes x 8"
    assert Placement((1, 2)).text == "nodes of 1+2"


@pytest.mark.parametrize("text", ["", "10", "1a2", "1+", "-1", "2+0"])
def test_a_text_that_is_no_placement_is_refused_with_an_example(text):
    with pytest.raises(BadRequest) as caught:
        read_placement(text)
    assert repr(text) in caught.value.sentence
    assert "1124" in caught.value.hint


@given(st.integers(1, 64), st.integers(1, 1000))
def test_gpus_are_spread_evenly_and_none_is_lost(nodes, gpus):
    if gpus >= nodes:
        placement = even_placement(nodes, gpus)
        assert (placement.nodes, placement.gpus) == (nodes, gpus)
        assert placement.busiest - min(placement.per_node) <= 1
