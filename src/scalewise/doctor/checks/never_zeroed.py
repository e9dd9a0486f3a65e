"""Detects gradients that are never zeroed, so that each step applies the sum of all gradients so far."""

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import Update, of_kind, require_one_optimizer, updates_of
from scalewise.doctor.queries.source import optimizer_name, text_of
from scalewise.records.notes import BackwardNote, ZeroNote

CHECK = Check(
    name="never-zeroed",
    group="accumulation",
    severity="wrong",
    detects="The first backward pass after a step still finds the gradients that the step has already applied.",
    why="Gradients of all earlier steps are applied again and again: the sum grows, and training goes astray.",
    example="""for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()""",
    fix="""for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()""",
    needs="three optimizer steps, and a parameter whose gradient can be looked at",
    silent="Gradients set to None or zeroed by hand; optimizers that take turns.",
)
LEAST = 3  # updates; for all but the first it must be known whether they begin with gradients


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if gradients exist before the first backward pass of nearly every update but the first."""
    rank = case.first
    updates, _ = updates_of(rank)
    if any(note.closure for note in rank.all(BackwardNote)):
        raise Abstain("the optimizer asks for gradients itself (a closure)")
    require_one_optimizer(updates)
    begins = [update for update in updates[1:] if update.backwards[0].had_gradient is not None]
    if len(begins) < LEAST - 1:
        raise Abstain(f"whether a step's gradients were zeroed is known of {len(begins)} steps, {LEAST - 1} are needed")
    # If a scaler skips a step, the script still zeroes the gradients afterwards.
    stale = [update for update in begins if _is_stale(update)]
    if len(stale) < 0.8 * len(begins):
        return ()
    step = updates[0].steps[0]
    optimizer = optimizer_name(rank, step)
    backward, line = rank.place(updates[0].backwards[0]), text_of(rank.place(step), f"{optimizer}.step()")
    return (
        Finding(
            check=CHECK.name,
            severity=CHECK.severity,
            sentence=f"Gradients are not zeroed after a step: {len(stale)} of {len(begins)} steps add to those of all "
            "steps before.",
            evidence=(
                f"at the first backward pass of {len(stale)} of {len(begins)} steps, parameters still held the "
                "gradients that the step before had applied",
                "no call of zero_grad() after the step found anything to throw away",
            ),
            fix=f"{line}\n{optimizer}.zero_grad()",
            where=rank.place(step),
            also=(backward,) if backward is not None else (),
            price=Price(len(stale) / len(begins), "share", "of the steps apply old gradients again", "counted"),
            steps_seen=len(updates),
        ),
    )


def _is_stale(update: Update) -> bool:
    """Returns True if old gradients exist from first backward pass to step; some loops zero in between (PGD)."""
    zeroed = any(note.had_gradients for note in of_kind(update.notes, ZeroNote))
    return not zeroed and all(note.had_gradient is not False for note in update.backwards)
