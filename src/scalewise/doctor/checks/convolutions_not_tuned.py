"""Detects convolutions of fixed shapes for which cuDNN chooses an algorithm without trying several."""

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_or_dismissed
from scalewise.doctor.queries.times import gpu_settings, graphs
from scalewise.records.spec import Change
from scalewise.units import counted

CHECK = Check(
    name="convolutions-not-tuned",
    group="gpu",
    severity="slow",
    detects="Convolutions have the same shapes in every step, torch.backends.cudnn.benchmark is off, and the step is "
    "faster with it.",
    why="cuDNN has several algorithms for a convolution. By default it guesses one; with benchmark on it tries them "
    "when it meets a shape for the first time, and keeps the fastest.",
    example="model = ResNet().cuda()  # all pictures have one size",
    fix="torch.backends.cudnn.benchmark = True  # before training",
    needs="a model with convolutions that trains on a GPU, and a replay to price it",
    silent="Shapes that change, for which every change would be tried again; deterministic algorithms asked for; steps "
    "that would not be faster.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding that is suspected until a replay has measured what tuning saves."""
    settings = gpu_settings(case)
    seen = graphs(case)
    if not seen[-1].convolutions:
        raise Abstain("the model has no convolutions")
    if len(seen) < 2:
        raise Abstain("only one backward pass was looked into: whether shapes change is not known")
    if settings.cudnn_benchmark or settings.cudnn_deterministic or len({row.shapes for row in seen}) > 1:
        return ()
    convolutions = counted(seen[-1].convolutions, "convolution")
    return (
        Finding(
            check=CHECK.name,
            severity="slow",
            sentence=f"{convolutions} of fixed shape run without torch.backends.cudnn.benchmark.",
            evidence=(f"the same shapes in {len(seen)} backward passes that were looked into, on {settings.device}",),
            fix=CHECK.fix,
            proof="suspected",
            steps_seen=len(case.first.windows),
            change=Change("tuned_convolutions"),
        ),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the finding by the time that tuning saves once the algorithms have been tried, or dismisses it."""
    return priced_or_dismissed(finding, replayed, "convolutions that were not tuned")
