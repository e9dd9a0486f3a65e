"""Tests of which link a prediction goes over: how far it is known, whose algorithms it has, and what is guessed."""

from factories import make_machine
from scalewise.plan.seating import Seating
from scalewise.predict.answer import Refused
from scalewise.predict.catalogue import named_link
from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link import Link, LinkCurve, Wire
from scalewise.predict.links import OFF_CORES, ON_CORES, AskedLink, Links
from scalewise.predict.probe import LinkProbe, place_of
from scalewise.predict.wire_fit import MeasuredCollective

SIZES = [4.0 * 8**power for power in range(9)]
TRUE = Link("true", Wire(300e-6, 20e-6, 1e9))
POINTS = tuple(MeasuredCollective(2, size, all_reduce(TRUE, size, 2)) for size in SIZES)
PROBE = LinkProbe(place_of(make_machine(), "cpu", 1), 1e9, 5.0, POINTS)


def links(link: str | None, per_node: int | None = None) -> Links:
    """Of a request for 2 and 8 ranks, where two ranks of one core each fit."""
    given = named_link(link, per_node, 8) if link not in (None, "measured") else None
    return Links(AskedLink(given, link == "measured", per_node, 8), Seating("cpu", (2,), 1, 2), PROBE, {})


def test_what_was_measured_here_is_known_for_the_ranks_that_fit_here():
    found = links(None)
    assert found.asked(2).most_ranks == 2
    assert isinstance(found.asked(8), Refused)
    assert found.asked(1).most_ranks == 1


def test_who_goes_on_from_it_goes_as_far_as_was_asked_for():
    assert links("measured").asked(8).most_ranks == 8


def test_nodes_that_were_not_measured_are_a_guess():
    assert any("nodes of 4 ranks" in guess for guess in links("measured", per_node=4).asked(8).guesses)
    assert not any("nodes of" in guess for guess in links("measured", per_node=8).asked(8).guesses)


def test_over_a_network_cores_carry_messages_as_gloo_does_and_no_quicker_than_here():
    found = links("ethernet-100g").asked(8)
    assert found.carrier == "gloo"
    assert ON_CORES in found.guesses
    assert found.inside == found.between
    assert found.inside.bytes_per_second <= 1.01e9


def test_over_a_link_of_gpus_engines_of_their_own_do():
    found = links("nvlink4").asked(8)
    assert found.carrier == "nccl"
    assert OFF_CORES in found.guesses


def test_ranks_that_fill_no_whole_number_of_nodes_rest_on_a_guess():
    found = links("nvlink4+ethernet-100g", per_node=3)
    assert any("the last node has 2 of the 8 ranks" in guess for guess in found.asked(8).guesses)
    assert not any("the last node" in guess for guess in found.asked(6).guesses)
    assert not any("the last node" in guess for guess in found.asked(2).guesses)


def test_nodes_other_than_the_measured_ones_rest_on_a_guess():
    reduces = LinkCurve(4, (1e3, 1e6), (1e-3, 2e-3), nodes=2)
    given = Link("ours", TRUE.inside, TRUE.inside, ranks_per_node=2, curves=(reduces,))
    found = Links(AskedLink(given, False, None, 8), Seating("cpu", (2,), 1, 2), PROBE, {})
    assert any("8 ranks on 4 nodes" in guess and "4 on 2" in guess for guess in found.asked(8).guesses)
    assert not any("on 2 that" in guess for guess in found.asked(4).guesses)
