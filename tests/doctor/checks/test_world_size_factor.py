"""Tests of the check of sums and means over ranks: gradients are drawn, reduced, and described as a rank would."""

import numpy as np
import pytest
from case_factory import Sheet, make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import world_size_factor as check


def reduced(scale, *, ranks=2, seed=0, shared=1.0, weight=1.0, micro_batches=1, steps=6):
    """Ranks that all-reduce gradients by hand: what is applied is `scale` times their sum."""
    random = np.random.default_rng(seed)
    sheets = [Sheet() for _ in range(ranks)]
    for _ in range(steps):
        common = shared * random.normal(size=8)
        own = [common + random.normal(size=8) for _ in sheets]
        applied = scale * sum(own)
        for sheet, gradient in zip(sheets, own, strict=True):
            ratio = float(applied @ gradient / (gradient @ gradient))
            for _ in range(micro_batches):
                sheet.batch().forward(wrapper=-1, module="Net").backward(factor=weight / micro_batches)
            left, norm = (float(np.linalg.norm(one)) for one in (gradient, applied))
            sheet.collective(size_bytes=4000).step(ratio=ratio, left=left, norm=norm).zero()
    return make_case(*sheets, wrapped=False)


def averaged(ratio, *, factor=1.0, ranks=2):
    return make_case(Sheet().windows(4, factor=factor, step={"ratio": ratio}), ranks=ranks)


def test_a_sum_over_ranks_is_found():
    (finding,) = check.examine(reduced(1.0, shared=2.0))
    assert finding.price.value == pytest.approx(2) and "summed over 2 ranks" in finding.sentence
    assert finding.where.text == "dist.all_reduce(tensor)" and "1 times the sum" in finding.evidence[0]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0, 5), st.integers(1, 3))
def test_a_sum_is_found_whatever_the_gradients_have_in_common(seed, ranks, shared, micro_batches):
    case = reduced(1.0, ranks=ranks, seed=seed, shared=shared, micro_batches=micro_batches)
    assert [finding.price.value for finding in check.examine(case)] == [pytest.approx(ranks)]


def test_ranks_that_apply_different_gradients_are_another_matter():
    sheets = [Sheet(), Sheet()]
    for index in range(4):
        for rank, sheet in enumerate(sheets):
            sheet.batch().forward(wrapper=-1).backward().collective(size_bytes=4000)
            sheet.step(ratio=1.0, left=1.0, norm=1.0 + rank + index).zero()
    with pytest.raises(Abstain, match="do not apply the same gradient"):
        check.examine(make_case(*sheets, wrapped=False))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0, 5))
def test_a_mean_over_ranks_is_never_taken_for_a_sum(seed, ranks, shared):
    assert check.examine(reduced(1 / ranks, ranks=ranks, seed=seed, shared=shared)) == ()


def test_a_sum_of_losses_divided_by_the_count_over_all_ranks_is_right():
    assert check.examine(reduced(1.0, shared=2.0, weight=0.5)) == ()


@pytest.mark.parametrize(("ratio", "word"), [(0.5, "divided"), (2.0, "summed")])
def test_what_ddp_has_averaged_is_not_reduced_again(ratio, word):
    (finding,) = check.examine(averaged(ratio))
    assert word in finding.sentence and finding.price.value == ratio


@pytest.mark.parametrize("case", [averaged(1.0), averaged(0.5, factor=2.0), averaged(2.0, factor=0.5), averaged(0.37)])
def test_what_ddp_has_averaged_and_nobody_touched_is_right(case):
    assert check.examine(case) == ()


def test_what_could_not_be_seen_abstains():
    unknown = make_case(Sheet().windows(4, step={"ratio": None}), ranks=2)
    for case in (unknown, make_case(Sheet().windows(4)), make_case(Sheet().windows(4, closure=True), ranks=2)):
        with pytest.raises(Abstain):
            check.examine(case)


def test_ranks_that_reduce_nothing_are_none_of_its_business():
    with pytest.raises(Abstain, match="no gradient was seen to be averaged"):
        check.examine(make_case(Sheet().windows(4, sync=False), ranks=2))
