"""Detects gradients that are zeroed before every micro-batch, so that the step uses only the last one."""

import statistics

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import MOSTLY, Accumulation, Update, accumulation_of, close, of_kind
from scalewise.doctor.queries.source import optimizer_name, text_of
from scalewise.records.notes import ScalerNote

CHECK = Check(
    name="zeroed-every-micro-batch",
    group="accumulation",
    severity="wrong",
    detects="zero_grad() is called for every micro-batch, so that only the last one of a window is applied.",
    why="K-1 of K micro-batches are computed and thrown away; a loss divided by K is K times too small.",
    example="""for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    (criterion(model(x), y) / K).backward()
    if (i + 1) % K == 0:
        optimizer.step()""",
    fix="""for i, (x, y) in enumerate(loader):
    (criterion(model(x), y) / K).backward()
    if (i + 1) % K == 0:
        optimizer.step()
        optimizer.zero_grad()""",
    needs="two optimizer steps",
    silent="Gradients that are kept elsewhere and put back before the step; one batch seen twice (SAM); optimizers that"
    " take turns.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if gradients are zeroed before all micro-batches but the first, and the last alone applied."""
    found = accumulation_of(case.first)
    guilty = tuple(update for update in found.windows if all(one.thrown_away for one in update.micro_batches[1:]))
    if len(guilty) < max(1, MOSTLY * len(found.windows)):
        return ()
    intact = [_is_intact(update) for update in guilty]
    known = [one for one in intact if one is not None]
    if known and sum(known) < MOSTLY * len(known):
        return ()  # the applied gradient is not the one that the last pass left: the script itself kept the others
    return (_finding(found, guilty, proved=bool(known)),)


def _is_intact(update: Update) -> bool | None:
    if update.applied is None:
        return None
    scales = [note.scale for note in of_kind(update.notes, ScalerNote) if note.scale]
    return any(close(update.applied, 1 / divisor, 0.02) for divisor in (1.0, update.size, *scales))


def _finding(found: Accumulation, guilty: tuple[Update, ...], proved: bool) -> Finding:
    rank, size = found.rank, found.size
    zero = next(one.thrown_away for one in guilty[0].micro_batches[1:])
    lost = sum(update.size - 1 for update in guilty)
    made = sum(update.size for update in guilty)
    step = guilty[0].steps[0]
    optimizer = optimizer_name(rank, step)
    sizes = statistics.fmean(update.size for update in guilty)
    line = text_of(rank.place(step), f"{optimizer}.step()")
    evidence = [
        f"gradients were thrown away {lost} times between the micro-batches of {len(guilty)} of {len(found.windows)} "
        f"windows ({sizes:.3g} micro-batches each)",
        f"{lost} of {made} micro-batches have no part in any step",
    ]
    if proved:
        evidence.append("the gradient that is applied is the one that the last backward pass left, and nothing else")
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"Only the last of {size} micro-batches is applied: gradients are zeroed in front of each, and "
        f"{size - 1} of {size} are thrown away.",
        evidence=tuple(evidence),
        fix=f"{line}\n{optimizer}.zero_grad()  # here, once per step, and not in front of every micro-batch",
        where=rank.place(zero),
        also=tuple(place for place in (rank.place(step),) if place is not None),
        price=Price(lost / made, "share", "of the gradients, computed for nothing", "counted"),
        proof="observed" if proved else "suspected",
        steps_seen=len(found.updates),
    )
