"""Tests of the checks of DDP's options: the search for unused parameters, bucket sizes, broadcast buffers."""

import pytest
from case_factory import Sheet, make_case, make_use, make_wrapper

from factories import make_estimate
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import needless_buffer_broadcast, needless_find_unused, tiny_buckets
from scalewise.doctor.finding import Replayed, TimeSaved
from scalewise.records.spec import Change

ASKING = {"find_unused_parameters": True}
SENDING = {"broadcast_buffers": True}


def case(use, other=None, line="model = DDP(net, find_unused_parameters=True)", **wrapper):
    made = []
    for one in (use, other or use):
        sheet = Sheet()
        place = sheet.place(line)
        made.append(sheet.windows(4).row(make_wrapper(place=place, **wrapper)).row(use if one is None else one))
    return make_case(*made)


def test_a_search_that_never_finds_is_needless():
    (finding,) = needless_find_unused.examine(case(make_use(), options=ASKING))
    assert finding.severity == "slow" and finding.counts and "in 8 steps on 2 ranks" in finding.sentence
    assert finding.change == Change("ddp_option", {"find_unused_parameters": False})
    assert finding.fix == "model = DDP(net)" and finding.steps_seen == 8


def test_a_parameter_without_gradient_on_any_rank_needs_the_search():
    used, unused = make_use(), make_use(without_gradient={"head.weight": 1})
    assert not needless_find_unused.examine(case(used, unused, options=ASKING))
    assert not needless_find_unused.examine(case(used, options={"find_unused_parameters": False}))
    assert not needless_find_unused.examine(case(used, options={**ASKING, "static_graph": True}))


def test_few_steps_are_not_enough_to_call_it_needless():
    with pytest.raises(Abstain, match="saw 4"):
        needless_find_unused.examine(case(make_use(steps_looked_at=4), options=ASKING))


def test_a_script_that_fails_without_the_search_needs_it():
    seen = case(make_use(), options=ASKING)
    (finding,) = needless_find_unused.examine(seen)
    saved = TimeSaved(make_estimate(0.2, 0.1, 0.3), 5.0, "measured in turns")
    priced = needless_find_unused.settle(seen, finding, Replayed(finding.change, seen, seen, 2, saved))
    assert priced.price.value == 0.2 and priced.proof == "replayed"
    failed = Replayed(finding.change, seen, seen, 2, None, "rank 0 raised RuntimeError")
    assert needless_find_unused.settle(seen, finding, failed).proof == "suspected"


def test_many_small_buckets_of_a_lowered_cap_are_found():
    use = make_use(bucket_bytes=(100_000,) * 12)
    (finding,) = tiny_buckets.examine(case(use, options={"bucket_bytes_cap": 104857}))
    assert "bucket_cap_mb=0.1 cuts 1.2 MB of gradients into 12" in finding.sentence
    assert finding.price.value == 6.0 and finding.change == Change("ddp_option", {"bucket_cap_mb": 25})


@pytest.mark.parametrize(
    ("buckets", "cap"),
    [
        ((100_000,) * 4, 104857),  # few
        ((5_000_000,) * 12, 5_000_000),  # large
        ((100_000,) * 12, 25 * 2**20),  # not lowered
        ((100_000,) * 12, None),  # not known
    ],
)
def test_few_large_or_default_buckets_pass(buckets, cap):
    options = {} if cap is None else {"bucket_bytes_cap": cap}
    assert not tiny_buckets.examine(case(make_use(bucket_bytes=buckets), options=options))


def test_large_constant_buffers_are_found():
    use = make_use(buffer_checks=6)
    (finding,) = needless_buffer_broadcast.examine(
        case(use, line="model = DDP(net)", options=SENDING, buffer_bytes=4_000_000)
    )
    assert "4 MB of buffers" in finding.sentence and finding.fix == "model = DDP(net, broadcast_buffers=False)"
    assert (finding.price.value, finding.price.unit) == (4_000_000, "bytes")


def test_buffers_that_change_on_any_rank_must_be_sent():
    still, moving = make_use(buffer_checks=6), make_use(buffer_checks=6, buffers_changed=1)
    large = {"options": SENDING, "buffer_bytes": 4_000_000}
    assert not needless_buffer_broadcast.examine(case(still, moving, **large))


def test_small_buffers_and_those_that_stay_at_home_pass():
    use = make_use(buffer_checks=6)
    assert not needless_buffer_broadcast.examine(case(use, options=SENDING, buffer_bytes=1000))
    off = {"broadcast_buffers": False}
    assert not needless_buffer_broadcast.examine(case(use, options=off, buffer_bytes=4_000_000))


def test_buffers_that_nobody_compared_are_not_judged():
    with pytest.raises(Abstain):
        needless_buffer_broadcast.examine(case(make_use(), options=SENDING, buffer_bytes=4_000_000))
