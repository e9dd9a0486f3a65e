"""Detects matmuls in float32 on a GPU whose tensor cores could do them in TensorFloat-32."""

from dataclasses import replace

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_or_dismissed
from scalewise.doctor.queries.times import gpu_settings, graphs
from scalewise.records.spec import Change

CHECK = Check(
    name="tf32-off",
    group="gpu",
    severity="slow",
    detects="Matmuls of float32 tensors run in full float32, and the same step with TensorFloat-32 is faster.",
    why="Since Ampere the tensor cores of a GPU multiply in TF32 (10 bits of mantissa, float32's range) several times "
    "as fast as the ordinary units multiply in float32. torch leaves this off for matmuls unless it is told.",
    example="model = Net().cuda()  # float32, no autocast",
    fix='torch.set_float32_matmul_precision("high")  # before training',
    needs="a GPU of compute capability 8.0 or later that trains in float32, and a replay to price it",
    silent="Models that train under autocast or in half precision; steps that would not be faster.",
)
FIRST_CAPABILITY = (8, 0)
LOSSES = 8  # number of first steps whose losses are compared


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding that is suspected until a replay has measured what TF32 saves."""
    settings = gpu_settings(case)
    if settings.capability < FIRST_CAPABILITY:
        raise Abstain(f"{settings.device} has no TF32")
    counted = graphs(case)[-1].matmuls
    full = counted.get("float32", 0)
    if settings.matmul_precision != "highest" or not full:
        return ()
    return (
        Finding(
            check=CHECK.name,
            severity="slow",
            sentence=f"{full} of {sum(counted.values())} matmuls of a step run in full float32 on a GPU that has TF32.",
            evidence=(f"torch.get_float32_matmul_precision() is {settings.matmul_precision!r} on {settings.device}",),
            fix=CHECK.fix,
            proof="suspected",
            steps_seen=len(case.first.windows),
            change=Change("tf32"),
        ),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the finding by the times in both precisions, and adds how far the first steps' losses differ."""
    settled = priced_or_dismissed(finding, replayed, "float32 matmuls, against TF32")
    told = _losses_told(replayed)
    if settled is None or not told:
        return settled
    return replace(settled, evidence=(*settled.evidence, told))


def _losses_told(replayed: Replayed) -> str:
    """Returns a sentence on how far the losses of both runs differ; they begin with the same parameters and data."""
    sides = [
        {row.step: row.loss for row in side.first.record.steps[:LOSSES] if row.loss is not None}
        for side in (replayed.plain, replayed.fixed)
        if side.ranks
    ]
    if len(sides) < 2 or not (common := sorted(sides[0].keys() & sides[1].keys())):
        return ""
    pairs = [(sides[0][step], sides[1][step]) for step in common]
    apart = max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs)
    return f"loss of the first {len(pairs)} steps in both precisions: {apart:.1e} apart at most, relative"
