"""The loss's own reduction is found by what the graph does, however the script spells it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from scalewise.watch.examination.backward import reduction_node, reductions, strongest

MODEL = nn.Linear(4, 3)
X, Y = torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, -100, -100, 2])


def heard(loss):
    """Factor, kind and count that a backward pass on this loss shows."""
    found = reductions([loss])
    for one in found:
        one.count()
        one.listen()
    loss.backward()
    for one in found:
        one.forget()
    factor, reduction = strongest(found)
    return factor, reduction and reduction.kind, reduction and reduction.counted


@given(parts=st.integers(1, 64), scale=st.sampled_from([1.0, 256.0, 65536.0]))
def test_whatever_multiplies_the_loss_is_in_the_factor(parts, scale):
    factor, kind, count = heard(F.cross_entropy(MODEL(X), Y) / parts * scale)
    assert factor == pytest.approx(scale / parts)
    assert (kind, count) == ("mean", 6)


@pytest.mark.parametrize(
    ("loss", "kind", "count"),
    [
        (lambda out: F.mse_loss(out, torch.zeros(8, 3)), "mean", 24),
        (lambda out: F.mse_loss(out, torch.zeros(8, 3), reduction="sum"), "sum", 24),
        (lambda out: F.l1_loss(out, torch.zeros(8, 3)), "mean", 24),
        (lambda out: F.binary_cross_entropy_with_logits(out, torch.ones(8, 3)), "mean", 24),
        (lambda out: F.smooth_l1_loss(out, torch.zeros(8, 3), reduction="sum"), "sum", 24),
        (lambda out: F.nll_loss(F.log_softmax(out, 1), Y, reduction="sum"), "sum", 6),
        (lambda out: F.cross_entropy(out, Y, weight=torch.tensor([1.0, 2.0, 3.0])), "mean", 6),
        (lambda out: out.pow(2).mean(1).mean(), "mean", 8),
        (lambda out: out.pow(2).sum() * 1.0, "sum", 24),
        (lambda out: out.norm(), "unknown", None),
    ],
)
def test_mean_sum_and_what_they_count(loss, kind, count):
    assert heard(loss(MODEL(X))) == (pytest.approx(1.0), kind, count)


@given(smoothing=st.floats(0.01, 0.5), parts=st.integers(1, 8))
def test_label_smoothing_is_one_loss(smoothing, parts):
    factor, kind, _ = heard(F.cross_entropy(MODEL(X), Y, label_smoothing=smoothing) / parts)
    assert (factor, kind) == (pytest.approx(1 / parts), "mean")


def test_a_small_regularisation_beside_it_is_not_the_loss():
    out = MODEL(X)
    factor, kind, count = heard(F.cross_entropy(out, Y) / 4 + 1e-3 * MODEL.weight.pow(2).sum())
    assert (factor, kind, count) == (0.25, "mean", 6)


def test_what_is_no_number_has_no_reduction():
    out = MODEL(X)
    assert reductions([out]) == []
    assert reductions([torch.ones(())]) == []


def test_a_parameter_that_is_itself_the_loss_ends_the_walk():
    weight = nn.Parameter(torch.ones(()))
    assert heard(weight * 2) == (1.0, "unknown", None)
    assert reduction_node(torch.ones(())) is None


def test_nothing_stays_in_a_graph_that_is_kept():
    loss = F.mse_loss(MODEL(X), torch.zeros(8, 3))
    found = reductions([loss])
    found[0].listen()
    loss.backward(retain_graph=True)
    found[0].forget()
    found[0].arrived = None
    loss.backward()
    assert found[0].factor is None
