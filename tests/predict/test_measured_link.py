"""Tests of a link from measured times: they are followed where they are, a wire beyond them, and bad ones refused."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_machine, make_run
from scalewise.predict.collective_times import all_reduce, seconds
from scalewise.predict.link import Link, LinkCurve, Wire
from scalewise.predict.measured_link import NoLink, error_of, fitted_wire, link_curve, measured_link
from scalewise.predict.probe import (
    STAGGERED,
    LinkProbe,
    Overlap,
    keep_probe,
    kept_probe,
    kept_probes,
    overlaps_of,
    place_of,
    sharing_of,
)
from scalewise.predict.timeline import Sharing
from scalewise.predict.wire_fit import MeasuredCollective, NoWireFit, WireFit

SIZES = [float(4 * 8**power) for power in range(9)]
WIRE = Wire(300e-6, 20e-6, 1e9)
PLACE = place_of(make_machine(), "cpu", 2)


def probe_of(points: list[MeasuredCollective]) -> LinkProbe:
    return LinkProbe(PLACE, 1.0e9, 5.0, tuple(points))


def points_of(ranks: int, bend: float = 1.0) -> list[MeasuredCollective]:
    """Of a wire on which messages of 16 KiB take `bend` times as long as they should."""
    link = Link("true", WIRE)
    return [
        MeasuredCollective(ranks, size, all_reduce(link, size, ranks) * (bend if size == 4 * 8**4 else 1.0) * factor)
        for size in SIZES
        for factor in (0.98, 1.0, 1.02)
    ]


def test_times_are_followed_where_they_bend():
    link = measured_link(probe_of(points_of(2, bend=3.0) + points_of(4)), 2)
    assert isinstance(link, Link)
    bent = 4.0 * 8**4
    assert seconds(link, "all_reduce", bent, 2) == pytest.approx(3 * all_reduce(Link("true", WIRE), bent, 2))
    assert link.origin == "measured"
    assert "gloo among 2 and 4 ranks of 2 cores each" in link.source


def test_beyond_the_largest_message_the_wire_carries_on():
    link = measured_link(probe_of(points_of(2) + points_of(4)), 2)
    assert isinstance(link, Link)
    largest = SIZES[-1]
    assert seconds(link, "all_reduce", 4 * largest, 2) == pytest.approx(
        all_reduce(Link("true", WIRE), 4 * largest, 2), rel=0.05
    )
    assert seconds(link, "barrier", 0.0, 2) > 0


def test_more_ranks_than_were_measured_rest_on_a_guess():
    link = measured_link(probe_of(points_of(2) + points_of(4)), 16)
    assert isinstance(link, Link)
    assert [curve.ranks for curve in link.curves] == [2, 4]
    assert any("16 ranks" in guess for guess in link.guesses)
    assert seconds(link, "all_reduce", 2**20, 16) == pytest.approx(all_reduce(Link("true", WIRE), 2**20, 16), rel=0.1)


@pytest.mark.parametrize(
    ("points", "ranks", "said"),
    [
        ([MeasuredCollective(2, size, 0.001) for size in SIZES], 2, "took no longer"),
        ([MeasuredCollective(2, size, 0.1 / size) for size in SIZES], 8, "no model fits"),
        (points_of(2)[:4], 2, "only 2 sizes"),
        (
            [MeasuredCollective(2, size, size * factor) for size in SIZES for factor in (1e-9, 4e-9, 30e-9)],
            2,
            "differ so much",
        ),
        ([], 2, "nothing was measured"),
    ],
)
def test_times_that_describe_no_link_are_refused(points, ranks, said):
    found = measured_link(probe_of(points), ranks)
    assert isinstance(found, NoLink)
    assert said in found.reason


def test_a_curve_whose_counts_fit_no_one_wire_still_serves_its_own_ranks():
    faster_with_more = points_of(2) + [dataclasses.replace(p, ranks=4, seconds=p.seconds / 50) for p in points_of(2)]
    link = measured_link(probe_of(faster_with_more), 2)
    assert isinstance(link, Link)
    assert seconds(link, "all_reduce", 2**20, 2) == pytest.approx(all_reduce(Link("true", WIRE), 2**20, 2), rel=0.3)


def test_times_that_fit_no_wire_tell_of_no_more_ranks_than_were_measured():
    crooked = [
        MeasuredCollective(2, size, 0.001 * 9 ** (at % 2) * (1 + at)) for at, size in enumerate(SIZES) for _ in range(3)
    ]
    assert isinstance(fitted_wire(probe_of(crooked)), NoWireFit)
    assert measured_link(probe_of(crooked), 2).most_ranks == 2
    assert isinstance(measured_link(probe_of(crooked), 4), NoLink)
    assert measured_link(probe_of(points_of(2)), 2).most_ranks == 0


def test_gathers_have_a_curve_of_their_own_and_no_part_in_the_wire():
    gathers = [MeasuredCollective(2, size, 100 * size / 1e9, "all_gather") for size in SIZES[3:] for _ in range(3)]
    link = measured_link(probe_of(points_of(2) + gathers), 2)
    plain = measured_link(probe_of(points_of(2)), 2)
    assert isinstance(link, Link) and isinstance(plain, Link)
    assert link.inside == plain.inside
    assert seconds(link, "all_gather", SIZES[5], 2) == pytest.approx(100 * SIZES[5] / 1e9)
    assert seconds(link, "all_reduce", SIZES[5], 2) == seconds(plain, "all_reduce", SIZES[5], 2)
    assert link.carrier == "gloo"


@given(st.lists(st.floats(1e-6, 10), min_size=3, max_size=9), st.floats(0, 1))
def test_between_two_points_a_time_lies_between_theirs(times, share):
    curve = LinkCurve(2, tuple(SIZES[: len(times)]), tuple(times))
    low, high = curve.sizes_bytes[0], curve.sizes_bytes[1]
    found = curve.at(low + share * (high - low))
    assert min(times[:2]) * (1 - 1e-9) <= found <= max(times[:2]) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("times", "counts"),
    [((1.0, 2.0, 90.0), 2.0), ((1.0, 1.0, 5.0, 5.0, 90.0), 11 / 3), ((0.0, *[1.0] * 9, *[4.0] * 9, 90.0), 2.5)],
)
def test_of_a_size_the_mean_without_extremes_counts(times, counts):
    assert link_curve([MeasuredCollective(2, 8.0, time) for time in times]).seconds == (pytest.approx(counts),)


def test_a_mean_of_many_times_is_known_better_than_one_of_few():
    few, many = ([MeasuredCollective(2, 8.0, time) for time in (1.0, 3.0) * times] for times in (3, 48))
    assert error_of(few) == pytest.approx(0.29, abs=0.01)
    assert error_of(many) == pytest.approx(0.06, abs=0.01)
    assert error_of(few[:1]) == 0.0


def test_messages_that_take_a_slice_or_none_still_tell_of_the_wire():
    unlike = [MeasuredCollective(2, size, 0.001 * slow + size * 1e-9) for size in SIZES for slow in (0, 1) * 10]
    assert isinstance(fitted_wire(probe_of(unlike)), WireFit)
    assert isinstance(measured_link(probe_of(unlike), 2), Link)


def test_a_probe_is_kept_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_probe(PLACE) is None
    probe = probe_of(points_of(2))
    keep_probe(probe)
    assert kept_probe(PLACE) == probe
    assert kept_probe(dataclasses.replace(PLACE, cores_per_rank=3)) is None
    assert kept_probes(make_machine()) == (probe,)
    assert kept_probes(make_machine(host="other")) == ()
    next(tmp_path.rglob("link-*.json")).write_text("{")
    assert kept_probes(make_machine()) == ()


def test_overlaps_are_read_from_five_kinds_of_steps():
    times = 10 * [0.9] + 3 * [0.001, 0.031, 0.021, 0.049, 0.038, 0.002, 0.302, 0.202, 0.492, 0.412]
    found = overlaps_of(make_run(times, ranks=2), [4096, 32768])
    assert [one.size_bytes for one in found] == 3 * [4096, 32768]
    assert found[0] == Overlap(2, 4096, *map(pytest.approx, (0.030, 0.020, 0.048, 0.037)))
    assert sharing_of(found, 2).work == pytest.approx(0.95)  # of the large ones
    assert sharing_of(found, 2).beside_seconds == pytest.approx(STAGGERED * (-0.003 + 0.010) / 2)
    assert sharing_of(found, 2).beside_bytes == 2048
    assert sharing_of(found, 1).beside_seconds == 0.0  # one core carries them in a row


def test_steps_that_were_cut_off_give_no_overlap():
    assert overlaps_of(make_run([0.9] * 5, ranks=2), [4096]) == ()


@pytest.mark.parametrize(("both", "work"), [(0.30, 0.0), (0.40, 0.5), (0.50, 1.0), (0.54, 1.2), (9.0, 3.0)])
def test_what_both_take_at_once_tells_how_cores_are_shared(both, work):
    assert sharing_of([Overlap(2, 1.0, 0.30, 0.20, both, 0.40)], 2).work == pytest.approx(work)


def test_every_number_of_ranks_shares_its_cores_as_it_was_measured():
    found = [Overlap(2, 1.0, 0.30, 0.20, 0.40, 0.40), Overlap(8, 1.0, 0.30, 0.20, 0.50, 0.40)]
    assert [sharing_of(found, 2, ranks).work for ranks in (2, 3, 6, 64)] == pytest.approx([0.5, 0.5, 1.0, 1.0])


def test_without_times_that_agree_all_of_a_message_is_work():
    assert sharing_of([], 2).work == 1.0
    unlike = [Overlap(2, 1.0, 0.30, 0.20, both, 0.40) for both in (0.30, 0.31, 0.40, 0.55, 0.60)]
    assert sharing_of(unlike, 2).work == 1.0


def test_computing_is_slower_beside_a_message_only_where_that_is_no_chance():
    def sharing(*beyond: float) -> Sharing:
        return sharing_of([Overlap(2, 1.0, 0.30, 0.20, 0.30 + 0.20 * one, 0.40) for one in beyond], 2)

    # The first two were measured on one machine, of which other probes say 0.93 to 1.1.
    assert sharing(0.98, 0.99, 1.16, 1.18, 1.23).work == 1.0
    assert sharing(0.8, 0.99, 1.1, 1.19, 1.63).work == 1.0
    assert sharing(1.46, 2.62, 1.63, 0.2, 1.7).work == 1.0  # three that agree by chance, on the two cores of another
    assert sharing(1.2, 1.2, 1.2, 1.2, 1.2).work == pytest.approx(1.2)


def test_two_messages_at_once_that_take_longer_than_in_a_row_are_taken_to_do_so_again():
    added, saved = ([Overlap(2, 1.0, 0.30, 0.20, 0.50, two)] for two in (0.45, 0.35))
    assert sharing_of(added, 2).beside_seconds == pytest.approx(STAGGERED * 0.05)  # steps hand them over in turn
    assert sharing_of(saved, 2).beside_seconds == pytest.approx(-0.05)
