"""Tests of which link a prediction goes over: how far it is known, whose algorithms it has, and what is guessed."""

import pytest

from factories import make_machine
from scalewise.cli.link_probe import Seating
from scalewise.cli.rehearse_links import OFF_CORES, ON_CORES, Links
from scalewise.cli.rehearse_request import requested
from scalewise.predict.answer import Refused
from scalewise.predict.collectives import all_reduce
from scalewise.predict.link import Link, Wire
from scalewise.predict.probe import LinkProbe, place_of
from scalewise.predict.wire_fit import Point

SIZES = [4.0 * 8**power for power in range(9)]
TRUE = Link("true", Wire(300e-6, 20e-6, 1e9))
POINTS = tuple(Point(2, size, all_reduce(TRUE, size, 2)) for size in SIZES)
PROBE = LinkProbe(place_of(make_machine(), "cpu", 1), 1e9, 5.0, POINTS)
NONE = dict.fromkeys(("link_file", "per_node", "memory", "price", "steps"))
OPTIONS = {"scaling": "script", "also": (), "no_check": True, "no_advice": True, "device": "cpu", "limit": 60.0} | NONE


@pytest.fixture
def links(tmp_path):
    """Of a request on two ranks of one core each."""
    script = tmp_path / "train.py"
    script.write_text("")

    def make(link: str | None, ranks: str = "2,8", per_node: int | None = None) -> Links:
        asked = OPTIONS | {"stall": 20.0, "out": tmp_path, "ranks": ranks, "link": link, "per_node": per_node}
        return Links(requested(str(script), (), asked), Seating("cpu", (2,), 1, 2), PROBE, {})

    return make


def test_what_was_measured_here_is_known_for_the_ranks_that_fit_here(links):
    found = links(None)
    assert found.asked(2).most_ranks == 2
    assert isinstance(found.asked(8), Refused)
    assert found.asked(1).most_ranks == 1


def test_who_goes_on_from_it_goes_as_far_as_was_asked_for(links):
    assert links("measured").asked(8).most_ranks == 8


def test_nodes_that_were_not_measured_are_a_guess(links):
    assert any("nodes of 4 ranks" in guess for guess in links("measured", per_node=4).asked(8).guesses)
    assert not any("nodes of" in guess for guess in links("measured", per_node=8).asked(8).guesses)


def test_over_a_network_cores_carry_messages_as_gloo_does_and_no_quicker_than_here(links):
    found = links("ethernet-100g").asked(8)
    assert found.carrier == "gloo"
    assert ON_CORES in found.guesses
    assert found.inside == found.between
    assert found.inside.bytes_per_second <= 1.01e9


def test_over_a_link_of_gpus_engines_of_their_own_do(links):
    found = links("nvlink4").asked(8)
    assert found.carrier == "nccl"
    assert OFF_CORES in found.guesses
