"""Detects gradients that are clipped while they still carry a GradScaler's scale."""

import math
import statistics
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, Window
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.mixed_precision import (
    carried_scale,
    known_scales,
    require_working_scaler,
    scaler_names,
    taken_out,
)
from scalewise.doctor.queries.source import text_of
from scalewise.records.notes import ClipNote
from scalewise.records.spec import Change

CHECK = Check(
    name="clip-before-unscale",
    group="precision",
    severity="wrong",
    detects="Gradients are clipped between scaler.scale(loss).backward() and scaler.unscale_(optimizer).",
    why="The threshold is compared with gradients that are thousands of times too large: every step is clipped, to a "
    "norm that is the threshold divided by the scale. Training crawls.",
    example="scaler.scale(loss).backward()\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)",
    fix="scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0)\n"
    "scaler.step(optimizer)",
    needs="an enabled GradScaler and clipping in the same step",
    silent="Gradients that were divided by hand; a threshold that is multiplied by the scale; a limit of infinity, "
    "which only measures; gradients that were not scaled.",
)
CHANGE = Change("unscale_before_clip")
MEANT_SHARE = 0.05  # of the scale: a limit above it was multiplied by the scale


@dataclass(frozen=True)
class Clipped:
    """One clipping of gradients that carry a scale."""

    note: ClipNote
    scale: float

    @property
    def seen(self) -> bool:
        """True if the gradient itself was measured; False if only the order of calls is known."""
        return self.note.ratio is not None


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding, marked as proved if the gradient was compared with what backward had left."""
    require_working_scaler(case)
    windows = case.windows(1)
    if not any(window.scaler for window in windows):
        raise Abstain("no enabled GradScaler was used")
    clips = [note for window in windows for note in window.clips]
    if not clips:
        raise Abstain("neither clip_grad_norm_ nor clip_grad_value_ was called; clipping by hand is not looked at")
    scales = known_scales(windows)
    if not scales:
        raise Abstain("the loss scale was never read")
    early = [one for window in windows for one in _early(window, scales.get(window.number))]
    if not early or len(early) < len(clips) / 4:
        return ()
    return (_finding(case, early, len(clips)),)


def _early(window: Window, known: float | None) -> list[Clipped]:
    found = []
    for note in window.clips:
        scale = carried_scale(window, note, known)
        if scale is None or math.isinf(note.limit) or note.limit >= MEANT_SHARE * scale:
            continue
        if note.ratio is None or not taken_out(note.ratio, scale):
            found.append(Clipped(note, scale))
    return found


def _finding(case: Case, early: list[Clipped], clips: int) -> Finding:
    rank, first = case.first, early[0]
    scale = statistics.median(one.scale for one in early)
    limit = first.note.limit
    norms = [one.note.norm for one in early if one.note.norm is not None]
    evidence = [
        f"{len(early)} of {clips} clippings came before unscale_, at a loss scale of {scale:g}",
        f"the threshold {limit:g} acts as {limit / scale:.2g} on the true gradient",
    ]
    if norms:
        evidence.append(f"norm found when clipping: {statistics.median(norms):.3g}, scale included")
    if first.note.ratio is not None:
        evidence.append(f"the gradient at the clipping is {first.note.ratio:.3g} of what backward left: not unscaled")
    place = rank.place(first.note)
    text = text_of(place, f"clip_grad_norm_(model.parameters(), {limit:g})")
    scaler, optimizer = scaler_names(rank)
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"Gradients are clipped while they still carry the loss scale {scale:g}, so the threshold {limit:g} "
        f"acts as {limit / scale:.2g}.",
        evidence=tuple(evidence),
        fix=f"{scaler}.unscale_({optimizer})\n{text}",
        where=place,
        price=Price(scale, "times", "too small is the clipping threshold", "the loss scale when clipping"),
        proof="observed" if any(one.seen for one in early) else "suspected",
        steps_seen=len(rank.windows),
        change=CHANGE,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if unscaling first changes the norm of the first applied gradient."""
    pair = replayed.gradients
    if replayed.trouble or not replayed.applied or pair is None:
        return finding
    text = f"norm of the first applied gradient: {pair.plain_norm:.3g} as it is, {pair.fixed_norm:.3g} with unscale_"
    differs = not math.isclose(pair.plain_norm, pair.fixed_norm, rel_tol=0.01)
    return replace(finding, evidence=(*finding.evidence, text), proof="replayed" if differs else finding.proof)
