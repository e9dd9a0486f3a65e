"""Tests of the check for shards that are clipped by their own norms."""

import math

import pytest
from case_factory import Sheet, make_case, make_sums, make_wrapper

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.clip_of_a_shard import examine, settle
from scalewise.doctor.finding import Replayed
from scalewise.records.notes import GradientsNote
from scalewise.records.spec import Change


def rank(norms, shards=(0, 1), collective="", digests="abcdef", weight=1.0, limit_found=None):
    sheet = Sheet()
    for number, norm in enumerate(norms):
        sheet.batch().forward(digest=digests[number]).backward()
        if collective:
            sheet.collective(collective)
        if limit_found is not None:
            sheet.clip(limit=0.1, norm=limit_found)
        sheet.add(GradientsNote, norm=norm, shard_ranks=list(shards))
        sheet.step()
    return sheet.row(make_sums(1, wrapper=-1, weight=weight))


def case_of(first, second, wrapped=False):
    return make_case(first, second, wrapped=wrapped)


def test_two_shards_with_one_norm_in_every_step_are_clipped_apart():
    (finding,) = examine(case_of(rank([0.1] * 4, limit_found=0.5), rank([0.1] * 4, limit_found=0.4)))
    assert "to 0.1 by its own norm" in finding.sentence
    assert finding.price.value == pytest.approx(math.sqrt(2))
    assert "0.2, 0.25" in finding.evidence[1]


def test_a_common_factor_leaves_different_norms():
    pairs = [(0.1 * math.cos(angle), 0.1 * math.sin(angle)) for angle in (0.3, 0.5, 0.7, 1.2)]
    assert examine(case_of(rank([a for a, _ in pairs]), rank([b for _, b in pairs]))) == ()


def test_gradients_that_are_dealt_out_after_backward_are_shards():
    first, second = (rank([0.1] * 4, shards=(), collective="reduce_scatter") for _ in range(2))
    assert examine(case_of(first, second))


def test_equal_inputs_and_other_parameters_are_tensor_parallelism():
    first = rank([0.1] * 4, shards=(), collective="all_reduce")
    assert examine(case_of(first, rank([0.1] * 4, shards=(), collective="all_reduce", weight=2.0)))


@pytest.mark.parametrize(
    ("what", "second"),
    [
        ("replicas", rank([0.1] * 4, shards=(), collective="all_reduce")),
        ("ranks that train apart on other data", rank([0.1] * 4, shards=(), collective="all_reduce",
                                                       digests="uvwxyz", weight=2.0)),
    ],
)  # fmt: skip
def test_equal_norms_are_nothing_of(what, second):
    with pytest.raises(Abstain, match="no two ranks hold shards"):
        examine(case_of(rank([0.1] * 4, shards=(), collective="all_reduce"), second))


def test_wrapped_in_fsdp_of_the_first_kind_they_are_shards():
    sheets = [rank([0.1] * 4, shards=(), weight=weight).row(make_wrapper(wrapper="FSDP")) for weight in (1.0, 2.0)]
    assert examine(make_case(*sheets))
    replicas = [rank([0.1] * 4, shards=()).row(make_wrapper(wrapper="FSDP")) for _ in range(2)]
    with pytest.raises(Abstain, match="no two ranks hold shards"):
        examine(make_case(*replicas))  # NO_SHARD: all ranks hold the same


def test_unknown_norms_are_not_judged():
    with pytest.raises(Abstain, match="not known"):
        examine(case_of(rank([None] * 4), rank([None] * 4)))


def replayed(plain, fixed, applied=4, trouble=""):
    found = examine(plain)[0]
    return found, settle(plain, found, Replayed(found.change, plain, fixed, applied, None, trouble))


def test_a_replay_with_the_norm_of_all_shards_proves_and_prices_it():
    plain = case_of(rank([0.1] * 4), rank([0.1] * 4))
    found, settled = replayed(plain, case_of(rank([0.06] * 4), rank([0.08] * 4)))
    assert found.change == Change("clip_by_whole_norm", {"limit": 0.1})
    assert settled.proof == "replayed" and settled.price.value == pytest.approx(math.sqrt(2))
    assert "0.1414 as it is, 0.1 clipped by the norm over all ranks" in settled.evidence[-1]


@pytest.mark.parametrize(("norm", "applied", "trouble"), [(0.1, 4, ""), (0.05, 0, ""), (0.05, 4, "rank 0 raised")])
def test_a_replay_that_changes_nothing_proves_nothing(norm, applied, trouble):
    plain = case_of(rank([0.1] * 4), rank([0.1] * 4))
    _, settled = replayed(plain, case_of(rank([norm] * 4), rank([norm] * 4)), applied, trouble)
    assert settled.proof == "observed"


def test_shards_of_some_ranks_only_cannot_be_asked_from_outside():
    apart = rank([0.3] * 4, shards=())
    (finding,) = examine(make_case(rank([0.1] * 4), rank([0.1] * 4), apart, wrapped=False))
    assert finding.ranks == (0, 1) and finding.change is None
