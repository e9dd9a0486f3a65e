"""Tests of how a measured link is shown: its times, its fit or why there is none, and how cores are shared."""

from dataclasses import replace

from factories import make_machine
from scalewise.jobs.as_json import machine_json
from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link import Link, Wire
from scalewise.predict.probe import LinkProbe, Overlap, place_of
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.report.documents.machine_document import link_texts

SIZES = [4.0 * 8**power for power in range(9)]
TRUE = Link("true", Wire(300e-6, 0.0, 1e9))
POINTS = tuple(MeasuredCollective(2, size, all_reduce(TRUE, size, 2)) for size in SIZES)
PROBE = LinkProbe(
    place_of(make_machine(), "cpu", 1),
    0.0,
    4.5,
    POINTS,
    (Overlap(2, 1.0, 0.1, 0.1, 0.2, 0.1985),),
    ("no time was left",),
)


def test_a_link_is_shown_with_its_times_and_its_fit():
    text = "\n".join(link_texts(PROBE))
    assert "gloo among 2 ranks of 1 core each on box, measured 1970-01-01 00:00 UTC, in 4.5 s" in text
    assert "64.0 MiB 67.4 ms" in text
    assert "fitted: 300 us to start, 1.00 GB/s each way; misses a time by 0 % in the mean" in text
    assert "2 ranks: a message holds up computing beside it for 100 % of its time" in text
    assert "while another is under way" not in text  # one core carries them in a row
    assert "no time was left" in text


def test_other_collectives_are_shown_beside():
    gathers = tuple(MeasuredCollective(2, size, 1.0 + size, "all_gather") for size in SIZES)
    text = "\n".join(link_texts(replace(PROBE, points=(*gathers, *POINTS))))
    assert "2 ranks, all_gather: " in text
    assert "64.0 MiB 67.4 ms; these means" in text


def test_what_messages_do_to_each_other_on_several_cores_is_shown():
    several = replace(PROBE, place=place_of(make_machine(), "cpu", 4))
    text = "\n".join(link_texts(several))
    assert "a message that begins while another is under way takes 1.50 ms less" in text


def test_a_fit_that_is_refused_is_said():
    bad = replace(PROBE, points=tuple(replace(point, seconds=1.0 / point.size_bytes) for point in POINTS))
    text = "\n".join(link_texts(bad))
    assert "2 ranks: refused, for 64.0 MiB took no longer than 4 B" in text
    assert "other numbers of ranks: refused" in text


def test_the_same_is_there_for_machines():
    (one,) = machine_json(make_machine(), [PROBE])["links"]
    assert one["place"]["host"] == "box"
    assert len(one["points"]) == len(SIZES)
    assert one["in_words"]
