"""Reads a window's mixed precision: the precision it trained in, and whether gradients still carry a loss scale."""

import math
import re
from collections.abc import Sequence

from scalewise.doctor.case import Abstain, Case, RankCase, Window
from scalewise.doctor.queries.source import called_on, text_of
from scalewise.records.notes import AutocastNote, BackwardNote, ForwardNote, Note, ScalerNote, WarningNote

LEAST_SCALE = 8.0  # a smaller factor is an ordinary weight of a loss
MOST_DIVISOR = 4096.0  # largest number by which a loss may be divided before it is scaled: micro-batches, weights


def scaler_names(rank: RankCase) -> tuple[str, str]:
    """Returns the script's names for its scaler and for the optimizer that it steps."""
    calls = {note.call: rank.place(note) for note in reversed(rank.all(ScalerNote))}
    scaler = called_on(calls.get("scale"), "scale", "scaler")
    stepped = re.search(r"\.step\(([A-Za-z_][\w.]*)\)", text_of(calls.get("step"), ""))
    return scaler, stepped.group(1) if stepped else "optimizer"


def scaler_device(case: Case) -> str:
    """Returns the device that a GradScaler is made for, as the script would write it."""
    asked = case.first.device_use.asked if case.first.device_use else ()
    model = case.first.record.model
    devices = (*asked, *(model.devices if model else ()))
    return "cuda" if any(name.startswith("cuda") for name in devices) else "cpu"


def require_working_scaler(case: Case) -> None:
    """Abstains if the script's GradScaler has switched itself off, which it would not do on a GPU."""
    for note in case.first.all(WarningNote):
        if "GradScaler is enabled, but" in note.text:
            raise Abstain("the script's GradScaler switched itself off, as there is no such device; try --on cpu")


def forward_precisions(window: Window) -> frozenset[str | None]:
    """Returns what training forward passes ran under: float16, bfloat16 or None. A model may enter autocast itself."""
    found: set[str | None] = set()
    entered: set[str | None] = set()
    for note in window.notes:
        if isinstance(note, AutocastNote):
            entered.add(note.dtype)
        elif isinstance(note, ForwardNote):
            if note.trains:
                found |= entered | ({note.autocast} if note.autocast or not entered else set())
            entered = set()
        elif isinstance(note, BackwardNote):  # autocast entered for a loss does not hold for the next forward pass
            entered = set()
    return frozenset(found)


def known_scales(windows: Sequence[Window]) -> dict[int, float]:
    """Returns, by the number of a window, the last loss scale that was read before it or in it.

    On a GPU the scale is read in the first windows only. It rarely changes, and by small factors, so later windows use
    the last one that is known.
    """
    found: dict[int, float] = {}
    last: float | None = None
    for window in windows:
        last = next((note.scale for note in reversed(window.scaler) if note.scale is not None), last)
        if last is not None:
            found[window.number] = last
    return found


def carried_scale(window: Window, until: Note, known: float | None = None) -> float | None:
    """Returns the scale that a GradScaler put into the gradients and did not take out before `until`, or None.

    If the factor of a backward pass is known, it decides: a loss that was not scaled leaves no scale. `known` replaces
    a
    scale that was not read in this window.
    """
    last: float | None = None  # the scale that a loss was multiplied with
    fresh = False  # True: no backward pass has followed yet
    carried: float | None = None
    for note in window.notes:
        if note is until:
            break
        if isinstance(note, ScalerNote) and note.call == "scale":
            last, fresh = known if note.scale is None else note.scale, True
        elif isinstance(note, ScalerNote) and note.call in ("unscale_", "step"):
            carried = None
        elif isinstance(note, BackwardNote):
            carried = last if _holds(note.factor, last, fresh) else None
            fresh = False
    return carried if carried is not None and carried >= LEAST_SCALE else None


def _holds(factor: float | None, scale: float | None, fresh: bool) -> bool:
    if factor is None or scale is None:
        return fresh
    return abs(factor) >= scale / MOST_DIVISOR


def taken_out(ratio: float, scale: float) -> bool:
    """Returns True if a gradient that is `ratio` of what backward left no longer carries the scale."""
    return ratio < 1 / math.sqrt(scale)
