"""Tests of the checks of how losses are weighted in a window."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_loader, make_optimizer

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import loss_not_divided, loss_weighted_per_micro_batch
from scalewise.doctor.finding import Replayed
from scalewise.records.inspection import GradientRow
from scalewise.records.spec import Change


def divided(sheet):
    return loss_not_divided.examine(make_case(sheet, ranks=2))


def test_a_sum_of_means_is_found():
    (finding,) = divided(Sheet().windows(4, 4))
    assert "4 times that of the whole batch" in finding.sentence and finding.proof == "observed"
    assert finding.change == Change("divide_loss", {"by": 4}) and finding.fix == "(loss / 4).backward()"
    assert (finding.price.value, finding.price.unit) == (pytest.approx(4.0), "times")


def test_adam_is_told_to_hide_it():
    (finding,) = divided(Sheet().windows(4, 4).row(make_optimizer(optimizer="AdamW")))
    assert any("AdamW divides most" in line for line in finding.evidence)


def test_a_sum_over_rows_divided_by_them_is_a_mean():
    (finding,) = divided(Sheet().windows(3, 2, factor=1 / 8, reduction="sum", elements=80))
    assert finding.price.value == pytest.approx(2.0)


def test_a_scaled_loss_that_is_not_divided_is_found():
    sheet = Sheet().windows(4, 4, factor=1024.0, step={"ratio": 1 / 1024, "scaled": True})
    (finding,) = divided(sheet)
    assert finding.price.value == pytest.approx(4.0) and "weight 1 " in finding.evidence[0]


def test_a_long_window_is_judged_by_the_passes_that_were_looked_at():
    factors = [1.0] * 24 + [None] * 16
    (finding,) = divided(Sheet().windows(2, 40, factor=factors))
    assert finding.price.value == pytest.approx(40.0)


def test_a_variable_window_is_divided_by_its_own_size():
    (finding,) = divided(Sheet().window(2).window(3).window(4).window(5))
    assert finding.change is None and "micro_batches" in finding.fix


@pytest.mark.parametrize(
    "values",
    [
        {"factor": 0.25},
        {"step": {"ratio": 0.25}},
        {"factor": 256.0, "step": {"ratio": 1 / 1024}},
        {"factor": 1.0, "reduction": "sum"},
        {"factor": 1 / 320, "reduction": "sum", "elements": 80},
    ],
    ids=["loss divided", "gradient divided", "scaled and divided", "a sum on purpose", "by tokens"],
)
def test_what_is_divided_in_any_way_is_right(values):
    assert divided(Sheet().windows(4, 4, **values)) == ()


def test_gradients_divided_before_they_are_clipped_are_right():
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch().micro_batch().clip(ratio=0.5).step(ratio=0.5).zero()
    assert divided(sheet) == ()


def test_gradients_that_never_add_up_are_another_mistake():
    with pytest.raises(Abstain):
        divided(Sheet().windows(4, 4, zero="each"))


def views():
    sheet = Sheet().row(make_loader())
    for _ in range(4):
        sheet.batch().window(2, batch=False)
    return sheet


def two_forwards():
    sheet = Sheet()
    for _ in range(4):
        sheet.batch().forward().forward().backward().batch().forward().forward().backward().step()
    return sheet


@pytest.mark.parametrize(
    "sheet",
    [Sheet().windows(4, 4, reduction="unknown"), Sheet().windows(4, 4, step={"ratio": None}), views(), two_forwards()],
    ids=["reduction unknown", "ratio unknown", "several views of one batch", "several forward passes"],
)
def test_what_is_not_known_abstains(sheet):
    with pytest.raises(Abstain):
        divided(sheet)


def test_parts_of_one_batch_are_judged():
    sheet = Sheet().row(make_loader(batch_size=8))
    for _ in range(4):
        sheet.batch().window(2, batch=False, forward={"rows": 4})
    assert len(divided(sheet)) == 1


def with_gradient(case, norm):
    rows = (GradientRow(0, 100, 0, 0, norm, 0.1),)
    return replace(
        case, ranks=tuple(replace(rank, record=replace(rank.record, inspection=rows)) for rank in case.ranks)
    )


@pytest.mark.parametrize(("norm", "proof"), [(0.5, "replayed"), (1.9, "observed")])
def test_a_replay_compares_the_first_gradient(norm, proof):
    case = make_case(Sheet().windows(4, 4), ranks=2)
    (finding,) = loss_not_divided.examine(case)
    replayed = Replayed(finding.change, with_gradient(case, 2.0), with_gradient(case, norm), 16, None)
    settled = loss_not_divided.settle(case, finding, replayed)
    assert settled.proof == proof and len(settled.evidence) == len(finding.evidence) + 1
    assert loss_not_divided.settle(case, finding, replace(replayed, trouble="died")) == finding


@pytest.mark.parametrize("known", [{"norm": 8.0}, {"norm": None}])
def test_behind_clipping_the_norm_before_it_is_compared(known):
    """What the step applies has the norm of the limit, with the loss divided and without."""

    def clipped(norm, left):
        sheet = Sheet()
        for _ in range(4):
            for _ in range(4):
                sheet.micro_batch()
            sheet.clip(norm=norm, ratio=1.0).step(left=left).zero()
        return with_gradient(make_case(sheet, ranks=2), 1.0)

    plain, fixed = clipped(known["norm"], 4.0), clipped(known["norm"] and known["norm"] / 4, 1.0)
    (finding,) = loss_not_divided.examine(plain)
    settled = loss_not_divided.settle(plain, finding, Replayed(finding.change, plain, fixed, 16, None))
    assert settled.proof == "replayed" and settled.price.value == pytest.approx(4)
    assert "before it is clipped" in settled.evidence[-1]


def weighted(sheet):
    return loss_weighted_per_micro_batch.examine(make_case(sheet, ranks=2))


def test_means_over_unequal_counts_are_found():
    (finding,) = weighted(Sheet().windows(4, 2, factor=0.5, elements=[30, 10]))
    assert "10 to 30 counted targets" in finding.sentence and "30, 10" in finding.evidence[0]
    assert finding.price.value == pytest.approx((abs(40 / 60 - 1) + abs(40 / 20 - 1)) / 2)


def test_sums_over_counts_of_their_own_are_found():
    factors = [1 / (2 * 30), 1 / (2 * 17)]
    (finding,) = weighted(Sheet().windows(4, 2, factor=factors, reduction="sum", elements=64))
    assert "30, 17" in finding.evidence[0]


@pytest.mark.parametrize(
    "values",
    [
        {"factor": 0.5, "elements": [30, 29]},
        {"factor": 1 / 47, "reduction": "sum", "elements": [30, 17]},
        {"factor": [30 / 47, 17 / 47], "elements": [30, 17]},
        {"factor": [0.30001, 0.1234], "reduction": "sum"},
    ],
    ids=["nearly equal", "divided by the window's tokens", "weighted by tokens", "weights of its own"],
)
def test_equal_counts_or_right_weights_are_right(values):
    try:
        assert weighted(Sheet().windows(4, 2, **values)) == ()
    except Abstain as reason:
        assert "could not be seen" in str(reason)


def test_one_short_batch_at_the_end_of_an_epoch_is_no_matter():
    sheet = Sheet().windows(5, 2, factor=0.5).window(2, factor=0.5, elements=[8, 3])
    assert weighted(sheet) == () and weighted(Sheet().windows(4)) == ()
