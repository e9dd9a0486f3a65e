"""Tests of links by name and by file: what can be named, how two are joined, and every mistake told at once."""

from math import exp
from pathlib import Path

import pytest

from scalewise.analysis.estimate import normal_quantile
from scalewise.errors import BadRequest
from scalewise.predict.catalogue import catalogue, known_links, named_link
from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link_file import link_from_file

GOOD = """
name = "ours"
spread = 0.05
ranks_per_node = 8
[inside]
start_us = 20
hop_us = 3.0
gigabytes_per_second = 300
[between]
hop_us = 10.0
gigabytes_per_second = 50
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "link.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", list(catalogue().entries))
def test_every_link_has_a_source_and_carries_larger_messages_longer(name):
    link = named_link(name)
    assert link.source
    assert link.origin == "catalogue"
    assert 0 < all_reduce(link, 1 << 10, 4) < all_reduce(link, 1 << 30, 4)


def test_a_newer_generation_is_quicker():
    for names in (
        ["nvlink2", "nvlink3", "nvlink4", "nvlink5"],
        ["pcie3", "pcie4", "pcie5"],
        ["ethernet-10g", "ethernet-100g"],
    ):
        times = [all_reduce(named_link(name), 1 << 28, 8) for name in names]
        assert times == sorted(times, reverse=True)


def test_a_rate_for_which_nobody_published_a_measurement_is_told_as_a_guess():
    assert named_link("nvlink3").guesses == ()
    assert any("published" in guess for guess in named_link("nvlink4").guesses)
    assert any("none of its own was found" in guess for guess in named_link("ethernet-10g").guesses)


@pytest.mark.parametrize("name", list(catalogue().entries))
def test_what_people_get_lies_between_low_and_high_and_below_the_data_sheet(name):
    entry = catalogue().entries[name]
    low, high = entry.achieved_bytes_per_second
    assert low < entry.wire.bytes_per_second < high
    assert low < entry.line_bytes_per_second
    assert exp(2 * normal_quantile(0.90) * entry.spread) == pytest.approx(high / low)


def test_a_cloud_network_is_far_below_its_line_rate_and_its_interval_says_so():
    cloud, fabric = catalogue().entries["ethernet-50g"], catalogue().entries["infiniband-ndr"]
    assert cloud.wire.bytes_per_second < 0.2 * cloud.line_bytes_per_second
    assert cloud.spread > 2 * fabric.spread
    assert named_link("pcie3+ethernet-50g", per_node=4).spread == cloud.spread  # the less known of both


def test_two_links_are_joined_inside_and_between():
    link = named_link("NVLink4+infiniband-ndrx8", per_node=8)
    assert link.ranks_per_node == 8
    assert link.between is not None
    assert link.between.bytes_per_second == 8 * catalogue().entries["infiniband-ndr"].wire.bytes_per_second
    assert link.nodes(64) == 8


def test_a_network_alone_joins_nodes_of_one_rank_and_says_so():
    link = named_link("ethernet-25g", most_ranks=64)
    assert (link.nodes(64), link.ranks_per_node) == (64, 1)
    assert any("a node and ethernet-25g to itself" in guess for guess in link.guesses)


def test_nodes_without_a_link_between_them_are_refused():
    with pytest.raises(BadRequest, match="what joins nodes of 8"):
        named_link("nvlink4", per_node=8, most_ranks=64)
    assert named_link("nvlink4", per_node=8, most_ranks=8).between is None


def test_a_whole_machine_knows_its_node():
    link = named_link("dgx-h100")
    assert (link.name, link.ranks_per_node) == ("dgx-h100", 8)


def test_more_ranks_than_a_node_is_known_to_hold_are_a_guess():
    assert not any("64 ranks" in guess for guess in named_link("nvlink4", most_ranks=8).guesses)
    assert any("64 ranks" in guess for guess in named_link("nvlink4", most_ranks=64).guesses)


@pytest.mark.parametrize(
    ("text", "per_node", "said"),
    [
        ("nvlnk4", None, "did you mean 'nvlink4'?"),
        ("infiband-ndrx8", None, "did you mean 'infiniband-ndr'?"),
        ("", None, "there is no link ''"),
        ("nvlink4+ethernet-10g", None, "--per-node"),
        ("ethernet-10g+nvlink4", 8, "ethernet-10g joins nodes and stands where the link inside a node should"),
        ("ethernet-10g", 8, "nvlink4+ethernet-10g"),
        ("nvlink4x8", None, "has no ports to count"),
        ("nvlink4+pcie4+ethernet-10g", 8, "too many"),
    ],
)
def test_a_wrong_name_is_told_with_what_to_do(text, per_node, said):
    with pytest.raises(BadRequest) as caught:
        named_link(text, per_node)
    assert said in caught.value.sentence
    assert caught.value.hint == known_links()


def test_every_wrong_part_is_told_at_once():
    with pytest.raises(BadRequest) as caught:
        named_link("nvlnk4+ethernt-10g", 8)
    assert "'nvlink4'" in caught.value.sentence
    assert "'ethernet-10g'" in caught.value.sentence


def test_a_file_of_the_users_own_is_read(written):
    link = link_from_file(written(GOOD))
    assert (link.name, link.ranks_per_node, link.spread, link.origin) == ("ours", 8, 0.05, "given")
    assert link.between is not None
    assert link.between.start_seconds == 0.0
    assert link.guesses == ()
    assert link_from_file(written(GOOD), per_node=4).ranks_per_node == 4


def test_a_file_without_a_spread_rests_on_a_guess(written):
    link = link_from_file(written("[inside]\ngigabytes_per_second = 5"))
    assert link.spread == 0.10
    assert any("10 %" in guess for guess in link.guesses)


def test_every_mistake_of_a_file_is_told_at_once(written):
    text = """
    naem = "x"
    spread = "small"
    ranks_per_node = 0
    [inside]
    start_us = -1
    gigabits_per_second = 8
    """
    with pytest.raises(BadRequest) as caught:
        link_from_file(written(text))
    for said in (
        "'naem' is not known (did you mean 'name'?)",
        "spread must be a number from 0 to 2, not 'small'",
        "ranks_per_node must be a whole number from 1 to 1,000,000, not 0",
        "inside.start_us must be a number from 0, not -1",
        "did you mean 'gigabytes_per_second'?",
        "inside.gigabytes_per_second is missing",
    ):
        assert said in caught.value.sentence
    assert "[inside]" in caught.value.hint


_MEASURED = "[inside]\ngigabytes_per_second = 1\n[[measured]]\nranks = {}\nnodes = {}\nbytes = {}\nmicroseconds = {}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not toml", "is not TOML"),
        ("inside = 3", "inside must be a table"),
        ("name = 'x'", "[inside] is missing"),
        ("[inside]\ngigabytes_per_second = 0", "must be above 0"),
        ("[inside]\ngigabytes_per_second = 1\n[between]\ngigabytes_per_second = 1", "ranks_per_node is not"),
        ("ranks_per_node = 4\n[inside]\ngigabytes_per_second = 1", "what is [between] the nodes is not"),
        ("[inside]\ngigabytes_per_second = nan", "must be a number"),
        ("measured = 3\n[inside]\ngigabytes_per_second = 1", "measured must be tables, each headed [[measured]]"),
        (_MEASURED.format(2, 1, [4], [1.0, 2.0]), "bytes must rise, and have as many entries as microseconds"),
        (_MEASURED.format(2, 1, [8, 4], [1.0, 2.0]), "bytes must rise"),
        (_MEASURED.format(2, 1, [], [1.0]), "measured[0].bytes must be a list of numbers"),
        (_MEASURED.format(2, 1, [4], [0.0]), "measured[0].microseconds must be above 0"),
        (_MEASURED.format(3, 2, [4], [1.0]), "equally many on each of its nodes"),
        (_MEASURED.format(4, 2, [4], [1.0]), "tells of several nodes, and what is [between] them is not said"),
        (_MEASURED.format('"x"', 1, [4], [1.0]), "measured[0].ranks must be a whole number"),
        (_MEASURED.format(2, 1, [4], [1.0]) + "hosts = 3", "measured[0].hosts is not known"),
        (_MEASURED.format(2, 1, [4], [1.0]) * 2, "is not TOML"),
        (f"[inside]\ngigabytes_per_second = 1{'0' * 400}", "gigabytes_per_second must be a number from 0, not 1000"),
        (f"[inside]\ngigabytes_per_second = 1{'0' * 5000}", "is not TOML"),
        (f"name = {'[' * 5000}", "is not TOML"),
        (f"name = {'[' * 90}{']' * 90}\n[inside]\ngigabytes_per_second = 1", "name must be a text, not [[["),
        (f"ranks_per_node = 0x{'f' * 9000}\n[inside]\ngigabytes_per_second = 1", "a value too long to show"),
    ],
)
def test_a_file_that_says_too_little_is_refused(written, text, said):
    with pytest.raises(BadRequest) as caught:
        link_from_file(written(text))
    assert said in caught.value.sentence


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadRequest, match="There is no link file"):
        link_from_file(tmp_path / "none.toml")
