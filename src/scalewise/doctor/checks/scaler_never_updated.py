"""Detects a GradScaler that steps and is never updated."""

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding
from scalewise.doctor.queries.mixed_precision import require_working_scaler
from scalewise.doctor.queries.source import called_on, text_of
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import ScalerNote
from scalewise.units import counted

CHECK = Check(
    name="scaler-never-updated",
    group="precision",
    severity="wrong",
    detects="scaler.step() is called and scaler.update() is not.",
    why="update() ends the scaler's step: without it the next step() or unscale_() raises, or the scale never follows "
    "the gradients and an overflow is never answered.",
    example="scaler.scale(loss).backward()\nscaler.step(optimizer)",
    fix="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    needs="an enabled GradScaler",
    silent="One update() for the steps of several optimizers; a scaler that is never stepped.",
)
MESSAGES = ("since the last update()", "unscale_() is being called after step()")


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding from the order of calls, or from the scaler's own exception."""
    require_working_scaler(case)
    rank = case.first
    calls = rank.all(ScalerNote)
    if not calls:
        raise Abstain("no enabled GradScaler was used")
    updates = [note for note in calls if note.call == "update"]
    pending = calls[calls.index(updates[-1]) + 1 :] if updates else calls
    steps = [note for note in pending if note.call == "step"]
    # If a new loss follows the step, the update was left out, and not just called in the wrong order.
    goes_on = bool(steps) and any(note.call == "scale" for note in pending[pending.index(steps[-1]) :])
    failure = rank.failure
    stopped = failure is not None and goes_on and any(message in failure.message for message in MESSAGES)
    if not stopped and (updates or len(steps) < 2):
        return ()
    return (_finding(case, calls, len(updates), steps[-1], stopped),)


def _finding(case: Case, calls: tuple[ScalerNote, ...], updates: int, last: ScalerNote, stopped: bool) -> Finding:
    rank = case.first
    count = {name: sum(note.call == name for note in calls) for name in ("scale", "unscale_", "step")}
    evidence = [
        f"scale {count['scale']}, unscale_ {count['unscale_']}, step {count['step']}, update {updates} times",
        f"the scale is {last.scale:g} and stays so" if last.scale else "the scale stays as it was",
    ]
    also: tuple[PlaceRow, ...] = ()
    if stopped and rank.failure is not None:
        evidence.append(f"the script ended with {rank.failure.error}: {rank.failure.message.splitlines()[0][:160]}")
        line = rank.places.get(rank.failure.place)
        also = (line,) if line else ()
    place = rank.place(last)
    text, scaler = text_of(place, "scaler.step(optimizer)"), called_on(place, "step", "scaler")
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The GradScaler stepped {counted(count['step'], 'time')} and was updated "
        f"{updates}" + (", and its exception ended the script." if stopped else "."),
        evidence=tuple(evidence),
        fix=f"{text}\n{scaler}.update()  # after the step, in every iteration",
        where=place,
        also=also,
        steps_seen=len(rank.windows),
    )
