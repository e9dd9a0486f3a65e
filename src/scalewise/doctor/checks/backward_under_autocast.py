"""Detects backward passes inside an autocast region."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding
from scalewise.doctor.queries.source import text_of

CHECK = Check(
    name="backward-under-autocast",
    group="precision",
    severity="note",
    detects="loss.backward() is called inside an autocast region.",
    why="Each operation of backward runs in the precision of its forward anyway; autocast around it can change the "
    "precision of custom functions and of gradient arithmetic, and PyTorch advises against it.",
    example="with torch.autocast(device, dtype):\n    loss = criterion(model(x), y)\n    loss.backward()",
    fix="with torch.autocast(device, dtype):\n    loss = criterion(model(x), y)\nloss.backward()",
    needs="backward passes of one optimizer step",
    silent="Fewer than half of the backward passes.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one note if at least half of the backward passes run inside an autocast region."""
    windows = case.windows(1)
    backwards = [note for window in windows for note in window.backwards if not note.closure]
    inside = [note for note in backwards if note.autocast]
    if not inside or 2 * len(inside) < len(backwards):
        return ()
    place = case.first.place(inside[0])
    finding = Finding(
        check=CHECK.name,
        severity="note",
        sentence=f"{len(inside)} of {len(backwards)} backward passes run inside an autocast region, which PyTorch "
        "advises against.",
        evidence=(f"autocast to {inside[0].autocast} was on when backward was called, {len(inside)} times",),
        fix=f"{text_of(place, 'loss.backward()')}  # one level further out, behind the `with` of autocast",
        where=place,
        steps_seen=len(windows),
    )
    return (finding,)
