"""Detects a GradScaler around bfloat16, which has the range of float32 and needs no scaling."""

import statistics

from scalewise.doctor.case import Abstain, Case, Window
from scalewise.doctor.finding import Check, Finding, Replayed, priced_by_time
from scalewise.doctor.queries.mixed_precision import (
    forward_precisions,
    require_working_scaler,
    scaler_device,
    scaler_names,
)
from scalewise.records.spec import Change

CHECK = Check(
    name="scaler-with-bf16",
    group="precision",
    severity="slow",
    detects="An enabled GradScaler although training runs in bfloat16 only.",
    why="bfloat16 does not underflow where float16 does. The scaler still multiplies the loss, divides all gradients, "
    "looks for infinities and waits for the answer in each step; while it searches its scale it skips steps.",
    example='scaler = torch.amp.GradScaler("cuda")\nwith torch.autocast("cuda", torch.bfloat16):\n    loss = model(x)',
    fix='scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)',
    needs="an enabled GradScaler and the precision of training forward passes",
    silent="A scaler with enabled=False; any float16 in training; float32.",
)
LEAST_WINDOWS = 2
CHANGE = Change("no_scaler")


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding if all steps with a scaled loss run in bfloat16."""
    require_working_scaler(case)
    windows = case.windows(LEAST_WINDOWS)
    scaled = [window for window in windows if any(note.call == "scale" for note in window.scaler)]
    if not scaled:
        raise Abstain("no enabled GradScaler was used")
    if len(scaled) < LEAST_WINDOWS or not all(_in_bfloat16(case, window) for window in scaled):
        return ()
    return (_finding(case, scaled, windows),)


def _in_bfloat16(case: Case, window: Window) -> bool:
    """Returns True if every training forward pass ran under bfloat16 autocast, or in bfloat16 parameters without it."""
    found = forward_precisions(window)
    if found == {None}:
        model = case.first.record.model
        return model is not None and {name.removeprefix("torch.") for name in model.dtypes} == {"bfloat16"}
    return found == {"bfloat16"}


def _finding(case: Case, scaled: list[Window], windows: tuple[Window, ...]) -> Finding:
    rank = case.first
    first = next(note for note in scaled[0].scaler if note.call == "scale")
    skipped = sum(window.step.skipped for window in windows if window.step)
    scales = [note.scale for window in scaled for note in window.scaler if note.scale]
    middle = f", median scale {statistics.median(scales):g}" if scales else ""
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"A GradScaler scales the loss in {len(scaled)} of {len(windows)} steps that train in bfloat16, which "
        "has no need of it.",
        evidence=(
            f"bfloat16 in {len(scaled)} of {len(scaled)} steps with a scaled loss, float16 in none{middle}",
            f"{skipped} of {len(windows)} steps were skipped by the scaler",
        ),
        fix=f'{scaler_names(rank)[0]} = torch.amp.GradScaler("{scaler_device(case)}", enabled=False)'
        "  # bfloat16 has the range of float32",
        where=rank.place(first),
        steps_seen=len(windows),
        change=CHANGE,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time of the scaler's work."""
    return priced_by_time(finding, replayed, "scaling, unscaling and looking for infinities")
