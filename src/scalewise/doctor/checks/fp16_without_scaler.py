"""Detects training in float16 without scaling of the loss, so that small gradients are rounded to zero."""

from dataclasses import replace

from scalewise.doctor.case import Case, Window
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.mixed_precision import (
    LEAST_SCALE,
    forward_precisions,
    require_working_scaler,
    scaler_device,
)
from scalewise.doctor.queries.source import called_on, optimizer_name
from scalewise.records.spec import Change

CHECK = Check(
    name="fp16-without-scaler",
    group="precision",
    severity="wrong",
    detects="Training in float16, by autocast or by float16 parameters, without any scaling of the loss.",
    why="Gradients below 6e-8 are zero in float16, silently: those parameters stop learning. A scaled loss lifts all "
    "gradients into the range that float16 has.",
    example="with torch.autocast(device, torch.float16):\n    loss = criterion(model(x), y)\nloss.backward()\n"
    "optimizer.step()",
    fix="scaler = torch.amp.GradScaler(device)\n...\nscaler.scale(loss).backward()\nscaler.step(optimizer)\n"
    "scaler.update()",
    needs="two optimizer steps in float16. Proof is the share of gradients that are zero, with and without scaling",
    silent="bfloat16; a GradScaler in use; a loss that is multiplied by hand; float16 in evaluation.",
)
LEAST_WINDOWS = 2
LEAST_SHARE = 0.001  # of all gradient elements: fewer zeros than one in a thousand are not held against it
CHANGE = Change("scaler")
UNSEEN = "whether gradients vanish was not seen in this run: it needs a run with scaling beside it"


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a suspected finding, or an observed one if gradients were seen to vanish: it depends on their size."""
    windows = case.windows(LEAST_WINDOWS)
    require_working_scaler(case)
    half = [window for window in windows if window.backwards and _in_half(case, window)]
    if len(half) < LEAST_WINDOWS or any(window.scaler for window in windows):
        return ()
    if any(_scaled_by_hand(window) for window in half):
        return ()
    return (_finding(case, half, len(windows)),)


def _in_half(case: Case, window: Window) -> bool:
    model = case.first.record.model
    return "float16" in forward_precisions(window) or (
        model is not None
        and bool(window.forwards)
        and "float16" in {name.removeprefix("torch.") for name in model.dtypes}
    )


def _scaled_by_hand(window: Window) -> bool:
    return any(note.factor is not None and abs(note.factor) >= LEAST_SCALE for note in window.backwards)


def _finding(case: Case, half: list[Window], windows: int) -> Finding:
    rank = case.first
    backward = half[0].backwards[-1]
    vanished = sum(note.gained == 0 and bool(note.loss) for window in half for note in window.backwards)
    factors = [note.factor for window in half for note in window.backwards if note.factor is not None]
    known = f"the loss is multiplied by {factors[0]:.3g} before backward" if factors else "no scaling of it was seen"
    evidence = [f"{len(half)} of {windows} steps trained in float16", f"GradScaler.scale was never called; {known}"]
    if vanished:
        evidence.append(f"{vanished} backward passes left nothing at all in a parameter's gradient")
    else:
        evidence.append(UNSEEN)
    forward = half[0].forwards[-1] if half[0].forwards else None
    line = rank.place(forward)
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{len(half)} of {windows} optimizer steps train in float16 and the loss is never scaled, so small "
        "gradients become zero.",
        evidence=tuple(evidence),
        fix=_fix(case, half[0]),
        where=rank.place(backward),
        also=(line,) if line else (),
        proof="observed" if vanished else "suspected",
        steps_seen=windows,
        change=CHANGE,
    )


def _fix(case: Case, window: Window) -> str:
    loss = called_on(case.first.place(window.backwards[-1]), "backward", "loss")
    optimizer = optimizer_name(case.first, window.step)
    return (
        f'scaler = torch.amp.GradScaler("{scaler_device(case)}")  # once; or train in bfloat16, which needs none\n'
        f"scaler.scale({loss}).backward()\nscaler.step({optimizer})\nscaler.update()"
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the share of gradients that are zero only without a scaler, on the same data."""
    pair = replayed.gradients
    if replayed.trouble or not replayed.applied or pair is None:
        return finding
    lost = pair.plain_zeros - pair.fixed_zeros
    words = (
        f"gradient elements that are exactly zero in step {pair.step}: {pair.plain_zeros:.2%} as it is, "
        f"{pair.fixed_zeros:.2%} with a GradScaler"
    )
    evidence = (*(one for one in finding.evidence if one != UNSEEN), words)
    if lost < LEAST_SHARE:
        return replace(finding, evidence=evidence, proof="suspected")
    price = Price(lost, "share", "of all gradient elements rounded to zero", "measured with and without a GradScaler")
    return replace(finding, evidence=evidence, proof="replayed", price=price)
