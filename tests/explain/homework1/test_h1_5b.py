"""H1.5B: efficiency over the batch decides, and the saturation batch is the one that was put in."""

import pytest

from evidence_factories import make_evidence
from homework1_evidence import strong
from scalewise.explain.homework1.h1_5b import answers, batch_scaling

BATCHES = (32, 64, 128, 256)


def batches(exchange=0.0, overhead=1e-3, sample=1e-4, ranks=(1, 2), batches=BATCHES, **changes):
    runs = []
    for batch in batches:
        own = exchange(batch) if callable(exchange) else exchange
        more = {"axes": {"batch": batch}, "removed": False, **changes}
        runs += strong(
            "batch-scaling", overhead=overhead, sample=sample, exchange=own, batch=batch, ranks=ranks, **more
        )
    return make_evidence(*runs)


def test_a_fixed_price_makes_larger_batches_scale_better():
    better, _ = answers(batches(exchange=0.005))
    assert better.text.startswith("Yes: on 2 ranks")


def test_a_price_that_grows_faster_than_the_batch_makes_them_worse():
    better, _ = answers(batches(exchange=lambda batch: 1e-6 * batch**2, overhead=0.0))
    assert better.text.startswith("No, worse")


def test_no_price_leaves_efficiency_as_it_is():
    better, _ = answers(batches(overhead=0.0))
    assert better.text.startswith("Not so that it shows")


def test_even_the_largest_batch_may_be_slower_than_one_rank():
    assert "Even the largest batch is slower" in answers(batches(exchange=0.1))[0].text


def test_the_saturation_batch_is_ninety_percent_of_the_limit():
    found = batch_scaling(batches(exchange=0.0, overhead=1e-3))
    assert found.saturation.batch.value == pytest.approx(
        9 * 1e-3 / 5e-5, rel=0.1
    )  # 50 us per sample of the global batch
    assert "saturates inside" in answers(batches())[1].text
    assert "does not saturate inside" in answers(batches(exchange=0.02))[1].text


def test_a_step_that_does_not_grow_has_no_limit_in_sight():
    assert "almost free" in answers(batches(overhead=0.01, sample=1e-9))[1].text


def test_on_one_rank_throughput_grows_where_a_part_is_fixed_and_not_where_none_is():
    assert answers(batches(ranks=(1,), overhead=0.02))[0].text.startswith("Throughput grows")
    even = answers(batches(ranks=(1,), overhead=0.0))[0].text
    assert even.startswith("Throughput does not clearly change")


def test_one_rank_says_nothing_of_scaling():
    assert "says nothing of scaling" in answers(batches(ranks=(1,)))[0].text


def test_oversubscribed_ranks_do_not_become_the_fixed_ones():
    two = batches(ranks=(1, 2))
    four = batches(ranks=(4,), oversubscribed=True)
    found = batch_scaling(make_evidence(*two.loaded.runs, *four.loaded.runs))
    assert found.ranks == 2
    assert {row.mark for row in found.other_rows} == {"oversubscribed"}
