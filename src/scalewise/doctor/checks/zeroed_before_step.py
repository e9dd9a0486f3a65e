"""Detects gradients that are zeroed between backward and step, so that the step changes nothing."""

from collections import defaultdict

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import Update, of_kind, updates_of
from scalewise.doctor.queries.source import optimizer_name, text_of
from scalewise.records.notes import NOWHERE, BackwardNote, ZeroNote

CHECK = Check(
    name="zeroed-before-step",
    group="accumulation",
    severity="wrong",
    detects="Gradients are zeroed or set to None between backward and the optimizer's step.",
    why="The step finds no gradients: nothing is learned, apart from what momentum or weight decay still do.",
    example="""loss.backward()
optimizer.zero_grad()
optimizer.step()""",
    fix="""loss.backward()
optimizer.step()
optimizer.zero_grad()""",
    needs="two optimizer steps",
    silent="Gradients of another model that are zeroed there (GAN), and gradients that are put back before the step.",
)
NOTHING = 1e-6  # share of the gradient that backward left


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if gradients are zeroed after the last backward pass and the step then has none."""
    updates, _ = updates_of(case.first)
    if any(note.closure for note in case.first.all(BackwardNote)):
        raise Abstain("the optimizer asks for gradients itself (a closure)")
    if len(updates) < 2:
        raise Abstain(f"needs 2 optimizer steps after backward passes, saw {len(updates)}")
    by_optimizer: dict[int, list[tuple[Update, ZeroNote | None]]] = defaultdict(list)
    for update in updates:
        if _is_known(update):
            by_optimizer[update.steps[0].optimizer].append((update, _thrown_away(update)))
    for seen in by_optimizer.values():
        guilty = [(update, zero) for update, zero in seen if zero is not None]
        if len(guilty) >= max(2, 0.8 * len(seen)):
            return (_finding(case, [update for update, _ in guilty], guilty[0][1], len(seen)),)
    bare = [update for update in updates if _taken_by_hand(update)] if len(by_optimizer) == 1 else []
    if len(bare) >= max(2, 0.8 * len(updates)) and any(note.gained for update in bare for note in update.backwards):
        return (_finding(case, bare, None, len(updates)),)
    return ()


def _taken_by_hand(update: Update) -> bool:
    """Returns True if no parameter has a gradient at the step though zero_grad() was not called (`p.grad = None`)."""
    return all(step.gradients == 0 and not step.skipped for step in update.steps)


def _is_known(update: Update) -> bool:
    """Returns True if it is known whether the step had gradients; only the first windows are looked at so closely."""
    step = update.steps[0]
    zeroed = any(note.had_gradients for note in of_kind(update.tail, ZeroNote))
    return not zeroed or step.gradients == 0 or step.ratio is not None


def _thrown_away(update: Update) -> ZeroNote | None:
    """Returns the call that removed the gradients before the step, or None."""
    step = update.steps[0]
    empty = step.gradients == 0 or (step.ratio is not None and abs(step.ratio) < NOTHING)
    if not empty or step.skipped:
        return None
    zeros = [note for note in of_kind(update.tail, ZeroNote) if note.had_gradients]
    return next((note for note in zeros if note.optimizer in (step.optimizer, NOWHERE)), None)


def _finding(case: Case, guilty: list[Update], zero: ZeroNote | None, seen: int) -> Finding:
    rank, step = case.first, guilty[0].steps[0]
    lost = sum(update.size for update in guilty)
    backward = rank.place(guilty[0].backwards[-1])
    where = rank.place(zero)
    optimizer = optimizer_name(rank, step)
    what = "zero_grad() comes before them" if zero is not None else "they are set to None before them"
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"{len(guilty)} of {seen} optimizer steps have no gradients: {what}.",
        evidence=(
            f"gradients of {lost} backward passes were thrown away before the step that was to apply them",
            f"parameters with a gradient at the step: {step.gradients} of {step.parameters}"
            if step.gradients == 0
            else f"gradient at the step over that which backward left: {step.ratio:.1g}",
        ),
        fix=f"{text_of(backward, 'loss.backward()')}\n{text_of(rank.place(step), f'{optimizer}.step()')}\n"
        f"{text_of(where, f'{optimizer}.zero_grad()')}  # after the step",
        where=where or rank.place(step),
        also=tuple(place for place in (backward, rank.place(step)) if place is not None),
        price=Price(len(guilty) / seen, "share", "of the steps apply nothing", "counted"),
        steps_seen=seen,
    )
