"""Detects a learning-rate scheduler that steps with every micro-batch, not with the optimizer."""

import itertools
import statistics
from collections.abc import Sequence

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price, Proof
from scalewise.doctor.queries.accumulation import Accumulation, accumulation_of, mostly, ran_to_its_end, scheduled
from scalewise.doctor.queries.source import text_of
from scalewise.records.notes import ExhaustedNote, Note, ScheduleNote

CHECK = Check(
    name="scheduler-per-micro-batch",
    group="accumulation",
    severity="wrong",
    detects="scheduler.step() is called once per micro-batch while the optimizer steps once per window.",
    why="The learning rate runs through its schedule K times too fast, and most of its values are never used.",
    example="""(loss / K).backward()
if (i + 1) % K == 0:
    optimizer.step()
    optimizer.zero_grad()
scheduler.step()""",
    fix="""(loss / K).backward()
if (i + 1) % K == 0:
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()""",
    needs="a scheduler of torch, and two optimizer steps",
    silent="A schedule that comes to its end with the training: it was counted in micro-batches on purpose. Where that "
    "cannot be told, it is a suspicion.",
)
SMALL = 0.05  # share of the highest rate at which the schedule is over


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if a window has as many scheduler steps as micro-batches."""
    found = accumulation_of(case.first)
    if not found.windows:
        return ()
    if not mostly(found.windows[1:] or found.windows, lambda update: scheduled(update) >= 0.9 * update.size):
        return ()
    notes = found.rank.all(ScheduleNote)
    busiest = statistics.mode(note.scheduler for note in notes)
    own = [note for note in notes if note.scheduler == busiest]
    proof = _proof(case, found, own)
    return () if proof is None else (_finding(found, own, proof),)


def _proof(case: Case, found: Accumulation, notes: Sequence[ScheduleNote]) -> Proof | None:
    """Returns "observed" if the schedule ends long before the training, None if it ends with it, else "suspected"."""
    failure = case.first.failure
    if failure is not None and "Tried to step" in failure.message:
        return "observed"  # OneCycleLR refuses more steps than it was made for
    if not ran_to_its_end(case):
        return "suspected"
    rates = [note.rate for note in notes]
    if min(rates) <= SMALL * max(rates):
        over = next(index for index, rate in enumerate(rates) if rate <= max(min(rates) * 1.01, SMALL * max(rates)))
        early = (over + 1) / len(rates)
        if early > 0.8:
            return None
        return "observed" if early <= 1.5 / found.size else "suspected"
    return None if _changes_with_epochs(found, notes) else "suspected"


def _changes_with_epochs(found: Accumulation, notes: Sequence[ScheduleNote]) -> bool:
    """Returns True if the rate changes only when an epoch ends: its period was then counted in batches."""
    ends = [note.at_ns for note in found.rank.all(ExhaustedNote)]
    changed = [(one, other) for one, other in itertools.pairwise(notes) if one.rate != other.rate]
    if not changed:
        return True  # a constant rate does no harm
    gap = statistics.median(other.at_ns - one.at_ns for one, other in itertools.pairwise(notes))
    return bool(ends) and all(_is_near(other, ends, gap) for _, other in changed)


def _is_near(note: Note, ends: Sequence[int], gap: float) -> bool:
    return min(abs(note.at_ns - end) for end in ends) <= 1.5 * gap


def _finding(found: Accumulation, notes: Sequence[ScheduleNote], proof: Proof) -> Finding:
    rank, size = found.rank, found.size
    where, step = rank.place(notes[0]), rank.place(found.windows[0].steps[0])
    line = text_of(where, "scheduler.step()")
    steps = len(found.updates)
    evidence = [
        f"{len(notes)} scheduler steps, {steps} optimizer steps, {size} micro-batches per optimizer step",
        f"learning rate from {notes[0].rate:.3g} to {notes[-1].rate:.3g}, lowest {min(n.rate for n in notes):.3g}",
    ]
    if proof == "suspected":
        evidence.append("a schedule whose length is counted in micro-batches on purpose looks the same")
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"The learning-rate scheduler steps {len(notes) / steps:.3g} times per optimizer step: its schedule "
        f"is over {len(notes) / steps:.3g} times too early.",
        evidence=tuple(evidence),
        fix=f"{text_of(step, 'optimizer.step()')}\n{line}  # once per optimizer step, under the same condition",
        where=where,
        also=(step,) if step is not None else (),
        price=Price(len(notes) / steps, "times", "the speed of the schedule", "counted"),
        proof=proof,
        steps_seen=steps,
    )
