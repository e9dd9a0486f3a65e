"""Detects scaled gradients that an optimizer applies directly, without the GradScaler."""

import statistics

from scalewise.doctor.case import Abstain, Case, Window
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.mixed_precision import (
    carried_scale,
    known_scales,
    require_working_scaler,
    scaler_names,
    taken_out,
)
from scalewise.doctor.queries.source import called_on
from scalewise.records.notes import StepNote

CHECK = Check(
    name="scaler-bypassed",
    group="precision",
    severity="wrong",
    detects="The loss is scaled and optimizer.step() is called instead of scaler.step(optimizer).",
    why="The optimizer applies gradients that are thousands of times too large, and steps on infinite ones, too. "
    "Adam hides the size and not the infinities.",
    example="scaler.scale(loss).backward()\noptimizer.step()\nscaler.update()",
    fix="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    needs="an enabled GradScaler and an optimizer step",
    silent="Gradients that were unscaled first, by unscale_ or by hand; optimizers whose loss was not scaled.",
)

MESSAGE = "No inf checks were recorded prior to update"


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding, marked as proved if the applied gradient was compared with what backward had left."""
    require_working_scaler(case)
    windows = case.windows(1)
    if not any(window.scaler for window in windows):
        raise Abstain("no enabled GradScaler was used")
    scales = known_scales(windows)
    past = [
        (window.step, scale)
        for window in windows
        if window.step and (scale := _carried(window, scales.get(window.number))) is not None
    ]
    return (_finding(case, past),) if len(past) > 1 or (past and _stopped(case)) else ()


def _stopped(case: Case) -> bool:
    """Returns True if the script failed because the scaler complained that it had made no step."""
    failure = case.first.failure
    return failure is not None and MESSAGE in failure.message


def _carried(window: Window, known: float | None) -> float | None:
    """Returns the scale in the gradients that the step applied; None if there was none, or if it was taken out."""
    step = window.step
    if step is None or step.scaled or step.skipped:
        return None
    scale = carried_scale(window, step, known)
    ratio = _ratio(window)
    return None if scale is None or (ratio is not None and taken_out(ratio, scale)) else scale


def _ratio(window: Window) -> float | None:
    """Returns the size of the gradient over what backward left, before any clipping."""
    if window.clips:
        return window.clips[0].ratio
    return window.step.ratio if window.step else None


def _finding(case: Case, past: list[tuple[StepNote, float]]) -> Finding:
    rank = case.first
    scale = statistics.median(value for _, value in past)
    windows = {window.step: window for window in rank.windows}
    ratios = [ratio for step, _ in past if (ratio := _ratio(windows[step])) is not None]
    through = sum(window.step is not None and window.step.scaled for window in rank.windows)
    evidence = [
        f"{len(past)} of {len(rank.windows)} steps applied gradients with a loss scale of {scale:g} in them",
        f"steps made by the scaler: {through}",
    ]
    if ratios:
        evidence.append(f"the applied gradient is {statistics.median(ratios):.3g} of what backward left: not unscaled")
    if _stopped(case):
        evidence.append(f"scaler.update() ended the script: {MESSAGE}")
    clipped = any(windows[step].clips for step, _ in past)
    place = rank.place(past[0][0])
    scaler, optimizer = scaler_names(rank)[0], called_on(place, "step", "optimizer")
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The optimizer steps past the GradScaler in {len(past)} of {len(rank.windows)} steps, on gradients "
        f"that {'were' if clipped else 'are'} {scale:g} times too large{' when they were clipped' if clipped else ''}.",
        evidence=tuple(evidence),
        fix=f"{scaler}.step({optimizer})\n{scaler}.update()",
        where=place,
        # If gradients were clipped in between, only as much of the scale is left as the threshold allows.
        price=None
        if clipped
        else Price(scale, "times", "too large is the applied gradient", "the loss scale at the step"),
        proof="observed" if ratios else "suspected",
        steps_seen=len(rank.windows),
    )
