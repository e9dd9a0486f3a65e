"""Detects attention that is computed step by step, with all scores in the GPU's memory."""

import math

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_or_dismissed
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.times import gpu_settings, graphs
from scalewise.records.examination import AttentionRow, AttentionSeen
from scalewise.records.spec import Change
from scalewise.units import bytes_text

CHECK = Check(
    name="attention-not-fused",
    group="gpu",
    severity="slow",
    detects="softmax(Q K') V is computed step by step on scores of megabytes, and the step is faster when it is fused.",
    why="Scores grow with the square of the length. Written out they are stored and read again for scale, mask and "
    "softmax, and kept for the backward pass. A fused kernel never stores them.",
    example="scores = q @ k.transpose(-2, -1) / math.sqrt(d)\ny = torch.softmax(scores, dim=-1) @ v",
    fix="y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    "# of nn.MultiheadAttention: attention(q, k, v, need_weights=False)",
    needs="a model with attention that trains on a GPU and is not compiled, and a replay to price it",
    silent="Scores of a few megabytes in all; attention that a fused kernel computes; steps that would not be faster.",
)
LEAST_BYTES = 4 << 20  # size of all scores of a step
_WIDTHS = {"float16": 2, "bfloat16": 2, "float64": 8}


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding that is suspected until a replay has measured what a fused kernel saves."""
    settings = gpu_settings(case)
    seen = graphs(case)[-1]
    if not seen.attention and not seen.fused_attention:
        raise Abstain("the model has no attention")
    size = sum(map(_bytes, seen.attention))
    if size < LEAST_BYTES:
        return ()
    rank = case.first
    largest = max(seen.attention, key=_bytes)
    rows = rank.rows(AttentionRow)
    places = [place for row in rows if (place := rank.places.get(row.place)) is not None]
    where = f"{short(places[0])} computes" if places else "The model computes"
    calls = {row.call for row in rows}
    return (
        Finding(
            check=CHECK.name,
            severity="slow",
            sentence=f"{where} attention step by step: {bytes_text(size)} of scores are stored in every forward pass.",
            evidence=(
                f"{sum(one.times for one in seen.attention)} times softmax between two products, the largest on scores "
                f"of {'x'.join(map(str, largest.shape))} in {largest.dtype}, on {settings.device}",
                *(f"{short(place)}: {place.text}" for place in places),
            ),
            fix=_fix(calls),
            where=places[0] if places else None,
            also=tuple(places[1:]),
            proof="suspected",
            steps_seen=len(rank.windows),
            change=Change("fused_attention"),
        ),
    )


def _bytes(seen: AttentionSeen) -> int:
    return math.prod(seen.shape) * _WIDTHS.get(seen.dtype, 4) * seen.times


def _fix(calls: set[str]) -> str:
    if calls == {"multi_head_attention_forward"}:
        return "attention(query, key, value, need_weights=False)"
    if calls == {"scaled_dot_product_attention"}:
        return "# leave the kernel to scaled_dot_product_attention: no sdpa_kernel(MATH), no float64"
    return "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)  # or is_causal"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the finding by the time that a fused kernel saves, or dismisses it if it saves none."""
    return priced_or_dismissed(finding, replayed, "attention step by step, against fused")
