"""Counted work is what can be worked out by hand, in every precision, with recomputation told apart."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from scalewise.watch.operation_counts import StepCounts, WorkMode, flops_of_event

BATCH, WIDE, OUT = 8, 32, 16


def _counted(act, in_backward=lambda: False) -> StepCounts:
    work = StepCounts(lambda: True, in_backward)
    with WorkMode(work):
        act()
    assert work.error is None
    return work


def _train(model: nn.Module, *inputs: torch.Tensor) -> None:
    model(*inputs).sum().backward()


def test_a_linear_layer_costs_two_flops_a_weight_and_sample_forward_and_four_backward():
    layer, x = nn.Linear(WIDE, OUT), torch.randn(BATCH, WIDE, requires_grad=True)

    assert _counted(lambda: _train(layer, x)).flops == {"float32": 6 * BATCH * WIDE * OUT}


def test_the_first_layer_needs_no_gradient_of_its_input():
    layer, x = nn.Linear(WIDE, OUT), torch.randn(BATCH, WIDE)

    assert _counted(lambda: _train(layer, x)).flops == {"float32": 4 * BATCH * WIDE * OUT}


def test_each_precision_is_counted_apart():
    layer, x = nn.Linear(WIDE, OUT), torch.randn(BATCH, WIDE)

    def act() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            half = layer(x)
        (half.float() @ torch.ones(OUT, 4)).sum().backward()

    whole = 2 * BATCH * OUT * 4
    assert _counted(act).flops == {"bfloat16": 4 * BATCH * WIDE * OUT, "float32": 2 * whole}


def test_a_convolution_costs_its_filter_at_every_output_place():
    layer, x = nn.Conv2d(3, 5, 3, padding=1, stride=2), torch.randn(2, 3, 8, 8, requires_grad=True)
    forward = 2 * 2 * 5 * 4 * 4 * 3 * 9

    assert sum(_counted(lambda: _train(layer, x)).flops.values()) == 3 * forward


@pytest.mark.parametrize("causal", [False, True])
def test_attention_counts_the_pairs_that_its_mask_leaves(causal):
    heads, length, width = 2, 16, 8
    q, k, v = (torch.randn(1, heads, length, width, requires_grad=True) for _ in range(3))
    pairs = length * (length + 1) // 2 if causal else length * length

    def act() -> None:
        nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()

    # Two products forward, five backward: fused kernels compute the scores anew.
    assert sum(_counted(act).flops.values()) == (2 + 5) * 2 * heads * pairs * width


def test_queries_may_have_more_heads_than_keys():
    q, k = torch.randn(1, 4, 16, 8), torch.randn(1, 2, 16, 8)

    def act() -> None:
        nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    assert sum(_counted(act).flops.values()) == 2 * 2 * 4 * 16 * 16 * 8


def test_what_a_checkpoint_repeats_is_told_apart():
    block = nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU())
    x = torch.randn(BATCH, WIDE, requires_grad=True)
    in_backward = False

    def act() -> None:
        nonlocal in_backward
        loss = checkpoint(block, x, use_reentrant=False).sum()
        in_backward = True
        loss.backward()

    plain = _counted(lambda: _train(block, x))
    again = _counted(act, lambda: in_backward)

    assert plain.recomputed == {}
    assert again.recomputed == {"float32": 2 * 2 * BATCH * WIDE * WIDE}
    assert again.flops["float32"] - plain.flops["float32"] == again.recomputed["float32"]


def test_bytes_are_those_of_the_operands_and_views_cost_nothing():
    a, b = torch.randn(64, 64), torch.randn(64, 64)

    assert _counted(lambda: a + b).operand_bytes == 3 * 64 * 64 * 4
    assert _counted(lambda: a.add_(b)).operand_bytes == 3 * 64 * 64 * 4
    assert _counted(lambda: a.copy_(b)).operand_bytes == 2 * 64 * 64 * 4
    assert _counted(lambda: a.t()).operand_bytes == 0
    assert _counted(lambda: torch.empty(1000)).operand_bytes == 0
    assert _counted(lambda: a.expand(10, 64, 64) + 1.0).operand_bytes == 11 * 64 * 64 * 4


def test_an_embedding_reads_only_the_rows_that_it_looks_up():
    table, rows = torch.randn(1000, 8), torch.tensor([1, 2, 3])

    moved = _counted(lambda: nn.functional.embedding(rows, table)).operand_bytes
    assert moved == 2 * 3 * 8 * 4 + 3 * 8


def test_only_tensors_larger_than_the_cache_are_sure_to_come_from_memory(monkeypatch):
    monkeypatch.setattr("scalewise.watch.operation_counts.cache_bytes", lambda device: 64 * 64 * 4)
    small, large = torch.randn(64, 64), torch.randn(128, 64)

    assert _counted(lambda: small + 1).streamed_bytes == 0
    assert _counted(lambda: large + 1).streamed_bytes == 2 * 128 * 64 * 4


def test_nothing_is_counted_outside_the_step():
    work = StepCounts(lambda: False, lambda: False)
    with WorkMode(work):
        torch.randn(4, 4) @ torch.randn(4, 4)

    assert not work.flops and not work.operand_bytes


def test_a_fault_of_the_count_ends_the_count_and_not_the_script(monkeypatch):
    def broken(*_):
        raise ValueError("broken on purpose")

    monkeypatch.setattr("scalewise.watch.operation_counts.flops_of", broken)
    work = StepCounts(lambda: True, lambda: False)
    with WorkMode(work):
        result = torch.ones(4, 4) @ torch.ones(4, 4)

    assert result[0, 0] == 4 and "broken on purpose" in str(work.error)


def test_shapes_in_a_profile_tell_the_same():
    assert flops_of_event("aten::mm", [[8, 32], [32, 16]], ["float", "float"], ["", ""]) == ("float32", 2 * 8 * 32 * 16)
    addmm = flops_of_event(
        "aten::addmm",
        [[16], [8, 32], [32, 16], [], []],
        ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"],
        ["", "", "", 1, 1],
    )
    assert addmm == ("bfloat16", 2 * 8 * 32 * 16)
    with pytest.raises(Exception, match="transposed"):
        flops_of_event(
            "aten::convolution",
            [[2, 3, 8, 8], [3, 5, 3, 3], [], [], [], [], [], [], []],
            ["float", "float", "", "", "", "", "", "", ""],
            ["", "", "", [1, 1], [0, 0], [1, 1], True, [0, 0], 1],
        )
