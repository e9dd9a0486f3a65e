"""Each change is a re-run of the model: what helps comes first, what cannot be told is left out with its reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_specimen import GIB, answer_of, full_answer
from scalewise.analysis.memory_use import MemoryLine
from scalewise.predict.advice import changes_at
from scalewise.predict.catalogue import named_link
from scalewise.predict.collective_times import seconds
from scalewise.predict.compute_work import ONE_BATCH, work_line
from scalewise.predict.faster_links import faster_links
from scalewise.predict.link import Link, LinkCurve, Wire
from scalewise.predict.prediction import predict
from scalewise.predict.tape import Issue
from scalewise.predict.timeline import Sharing
from taped_steps import MIB, QUICK, SLOW, ddp_tape, rehearsal


def changes(answer, index=-1, **more):
    at = answer.at[index]
    line = work_line([one.rehearsal for one in answer.at])
    return changes_at(answer, at, line, **more)


def by_name(found):
    return {one.what: one for one in found.changes}


def test_where_messages_bound_the_step_sending_less_often_helps():
    found = changes(answer_of(strong=True))
    named = by_name(found)
    assert named["accumulation x4"].verdict == "helps"
    assert named["accumulation x4"].gain.value > named["accumulation x2"].gain.value > 1.2
    gains = [one.gain.value for one in found.changes]
    assert gains == sorted(gains, reverse=True)


def test_where_computing_bounds_it_nothing_that_changes_messages_helps():
    named = by_name(changes(answer_of(link=Link("ideal", Wire(0, 0, 1e15), origin="given"))))
    assert named["gradients sent in bf16"].verdict == "does not help"
    assert named["gradients sent in bf16"].gain.value == pytest.approx(1, abs=1e-6)


def test_a_change_is_what_a_rehearsal_of_it_would_have_predicted():
    answer = answer_of((8,), strong=False, samples=64)
    other = rehearsal(ddp_tape(8, 128.0, forward=1e-3, per_sample=0.5e-3))
    line = work_line([answer.at[0].rehearsal, rehearsal(ddp_tape(8, 16.0, forward=1e-3, per_sample=0.5e-3))])
    found = by_name(changes_at(answer, answer.at[0], line))["batch per rank x2"]
    there = predict(other, SLOW, spread=answer.spread)
    assert found.step.value == pytest.approx(there.step.value, rel=1e-6)
    assert found.gain.value == pytest.approx(there.throughput / answer.at[0].predicted.throughput, rel=1e-6)
    assert "128 samples" in found.guesses[0]


def test_one_batch_makes_larger_ones_a_guess():
    assert by_name(changes(answer_of((8,))))["batch per rank x2"].guesses == (ONE_BATCH,)


def test_a_batch_that_does_not_fit_is_last_and_said_not_to():
    found = changes(answer_of((8,)), memory=MemoryLine(GIB, GIB / 64, "", 64), capacity_bytes=3.5 * GIB)
    assert by_name(found)["batch per rank x2"].verdict != "does not fit"
    assert found.changes[-1].what == "batch per rank x4" and found.changes[-1].verdict == "does not fit"


def test_buckets_are_put_together_from_small_ones():
    found = changes(full_answer())
    (bucket,) = [one for one in found.changes if one.what.startswith("buckets of")]
    assert "instead of 4" in bucket.why
    assert not any(one.what == "bucket size" for one in found.left_out)


def test_what_cannot_be_told_is_left_out_with_its_reason():
    left = {one.what: one.reason for one in changes(answer_of(), index=0).left_out}
    assert "small buckets" in left["bucket size"]
    answer = answer_of((8,), sharing=Sharing(work=1.0))
    half = replace(answer.at[0], rehearsal=replace(answer.at[0].rehearsal, dtypes=("torch.bfloat16",)))
    left = {one.what: one.reason for one in changes(replace(answer, at=(half,))).left_out}
    assert "already" in left["gradients sent in bf16"]
    assert "cores" in left["faster link"]


def test_small_buckets_of_another_model_tell_nothing():
    answer = answer_of(fine=rehearsal(ddp_tape(buckets=3)))
    assert "same gradients" in {one.what: one.reason for one in changes(answer).left_out}["bucket size"]


def test_unknown_precision_is_a_guess():
    answer = answer_of((8,))
    blind = replace(answer.at[0], rehearsal=replace(answer.at[0].rehearsal, dtypes=()))
    found = by_name(changes(replace(answer, at=(blind,))))["gradients sent in bf16"]
    assert "that gradients are float32 now" in found.guesses


def test_the_next_faster_links_are_those_of_the_catalogue():
    assert [one.name for one in faster_links(named_link("ethernet-10g"), 8)] == ["ethernet-25g", "ethernet-100g"]
    both = named_link("nvlink3+infiniband-hdrx4", 8)
    assert [one.name for one in faster_links(both, 64)][:1] == ["nvlink3+infiniband-ndrx4"]
    assert "nvlink4+infiniband-hdrx4" in [one.name for one in faster_links(both, 64)]
    assert all(one.inside is both.inside or one.between is both.between for one in faster_links(both, 64))
    assert faster_links(Link("given", Wire(0, 0, 1e15)), 8) == ()


def test_a_faster_link_is_one_beside_a_measured_one_too_and_a_whole_machine_keeps_its_ports():
    times = LinkCurve(8, (1.0, 1e9), (1.0, 10.0))
    slow = Link("measured", Wire(60e-6, 10e-6, 1e8), origin="measured", curves=(times,), most_ranks=8)
    quicker = faster_links(slow, 8)
    assert quicker and all(seconds(one, "all_reduce", 1e8, 8) < seconds(slow, "all_reduce", 1e8, 8) for one in quicker)
    assert "nvlink4+infiniband-xdrx8" in [one.name for one in faster_links(named_link("dgx-h100"), 64)]


@given(st.floats(1e8, 1e10), st.integers(2, 1024))
def test_a_faster_link_never_loses_throughput(rate, ranks):
    answer = answer_of((ranks,), link=Link("slow", Wire(60e-6, 10e-6, rate), spread=0.1))
    for one in changes(answer).changes:
        if one.what.startswith("link "):
            assert one.gain.value >= 1 - 1e-9
            assert one.gain.low <= one.gain.value <= one.gain.high


def test_a_quick_link_has_little_to_gain():
    found = by_name(changes(answer_of((8,), link=QUICK, per_sample=5e-3)))
    assert found["accumulation x2"].gain.value < 1.05


def with_buckets(present, fine):
    """Messages now so large, and in a rehearsal with one for each gradient."""

    def sent(sizes):
        tape, numbered = ddp_tape(2, 32.0, buckets=len(sizes)), iter(sizes)
        entries = [replace(one, size_bytes=next(numbered)) if isinstance(one, Issue) else one for one in tape.entries]
        return rehearsal(replace(tape, entries=tuple(entries)))

    answer = answer_of((2,), fine=sent(fine))
    return replace(answer, at=(replace(answer.at[0], rehearsal=sent(present)),))


def test_buckets_that_are_as_they_are_now_but_for_a_bias_are_no_change(monkeypatch):
    monkeypatch.setattr("scalewise.predict.advice.CAPS_MIB", (8,))
    bias, weight = 4096, 8 * MIB
    found = changes(with_buckets((bias + weight + bias, weight), (bias, weight, bias, weight)))
    assert not any(one.what.startswith("buckets") for one in found.changes)


def test_as_many_buckets_of_another_size_are_told_by_their_sizes(monkeypatch):
    monkeypatch.setattr("scalewise.predict.advice.CAPS_MIB", (8,))
    found = by_name(changes(with_buckets((4 * MIB, 12 * MIB), (4 * MIB,) * 4)))
    assert found["buckets of 8 MiB"].why == "2 messages of up to 8.00 MiB, instead of up to 12.0 MiB"
