"""What a window says of mixed precision: in which precision it trained, and whether gradients still carry a scale."""

import math
import re
from collections.abc import Sequence

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.script_words import called_on, text_of
from scalewise.doctor.windows import Window
from scalewise.records.notes import AutocastNote, BackwardNote, ForwardNote, Note, ScalerNote, WarningNote

LEAST_SCALE = 8.0  # a smaller one is an ordinary weight of a loss
MOST_DIVISOR = 4096.0  # micro-batches, weights: what a loss may be divided by before it is scaled


def scaler_names(rank: RankCase) -> tuple[str, str]:
    """What the script calls its scaler and the optimizer that it steps."""
    calls = {note.call: rank.place(note) for note in reversed(rank.all(ScalerNote))}
    scaler = called_on(calls.get("scale"), "scale", "scaler")
    stepped = re.search(r"\.step\(([A-Za-z_][\w.]*)\)", text_of(calls.get("step"), ""))
    return scaler, stepped.group(1) if stepped else "optimizer"


def scaler_device(case: Case) -> str:
    """The device that a GradScaler is made for, as a word of the script."""
    asked = case.first.device_use.asked if case.first.device_use else ()
    model = case.first.record.model
    devices = (*asked, *(model.devices if model else ()))
    return "cuda" if any(name.startswith("cuda") for name in devices) else "cpu"


def require_working_scaler(case: Case) -> None:
    """Abstains where the script's GradScaler has switched itself off: on a GPU it would not have."""
    for note in case.first.all(WarningNote):
        if "GradScaler is enabled, but" in note.text:
            raise Abstain("the script's GradScaler switched itself off, as there is no such device; try --on cpu")


def precisions(window: Window) -> frozenset[str | None]:
    """What the training forward passes ran under: float16, bfloat16, or None; a model may enter autocast itself."""
    found: set[str | None] = set()
    entered: set[str | None] = set()
    for note in window.notes:
        if isinstance(note, AutocastNote):
            entered.add(note.dtype)
        elif isinstance(note, ForwardNote):
            if note.trains:
                found |= entered | ({note.autocast} if note.autocast or not entered else set())
            entered = set()
        elif isinstance(note, BackwardNote):  # what was entered for a loss says nothing of the next forward pass
            entered = set()
    return frozenset(found)


def known_scales(windows: Sequence[Window]) -> dict[int, float]:
    """By the number of a window, the last loss scale that was read before it or in it.

    On a GPU the scale is read in the first windows only. It changes seldom and by small factors, so later windows go by
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
    """The scale that a GradScaler put into the gradients and did not take out before `until`; None: there is none.

    Where the factor of a backward pass is known it decides: a loss that was not scaled leaves no scale. `known` stands
    in for a scale that was not read in this window.
    """
    last: float | None = None  # that a loss was multiplied with
    fresh = False  # and no backward pass since
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
    """Whether a gradient that is `ratio` of what backward left has lost the scale, by whatever spelling."""
    return ratio < 1 / math.sqrt(scale)
