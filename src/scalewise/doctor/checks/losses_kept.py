"""Detects losses of past steps that are kept together with their graphs, so that memory grows with every step."""

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.source import KeptLoss, line_that_keeps
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import BackwardNote, KeptNote
from scalewise.units import bytes_text, counted

LEAST_STEPS = 6
HOW = "measured: memory in use after two sampled steps, over the steps between them"
LEAST_WINDOWS = 6  # windows whose graphs are held at once, if these are most of all graphs
LEAST_SHARE = 0.7
MANY_WINDOWS = 10  # enough at any share, as for a sum that begins anew with each epoch

CHECK = Check(
    name="losses-kept",
    group="timing",
    severity="slow",
    detects="The script keeps the losses of past steps as tensors with their graphs, in a list or in a running sum.",
    why="Each such tensor holds every node of its graph: memory grows with each step, and what fits at first runs out "
    "of memory after hours.",
    example="total_loss += loss\nlosses.append(loss)",
    fix="total_loss += loss.detach()\nlosses.append(loss.item())  # or once in a while: this one waits for a GPU",
    needs=f"{LEAST_STEPS} optimizer steps",
    silent="Losses kept as numbers or detached; graphs of one window, and of a few steps at most.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if too many graphs still existed when a step was over."""
    case.windows(LEAST_STEPS)
    held = [(rank, most) for rank in case.ranks if (most := _most(rank)) is not None]
    if not held:
        raise Abstain("no loss was followed")
    keepers = [(rank, most) for rank, most in held if _keeps(most)]
    return (_finding(keepers),) if keepers else ()


def _most(rank: RankCase) -> KeptNote | None:
    """Returns the note with the most graphs, or None."""
    return max(rank.all(KeptNote), key=lambda note: note.graphs, default=None)


def _keeps(most: KeptNote) -> bool:
    """Returns True if the graphs of many windows are held; those of the last few are not growth.

    A window has as many graphs as backward passes.
    """
    windows = most.graphs / max(1.0, most.seen / max(1, most.step))
    return windows >= MANY_WINDOWS or (windows >= LEAST_WINDOWS and most.graphs >= LEAST_SHARE * most.seen)


def _finding(keepers: list[tuple[RankCase, KeptNote]]) -> Finding:
    rank, most = keepers[0]
    where, kept = _where(rank)
    growth = _growth(rank, most)
    per_step = f", {bytes_text(growth)} more with each" if growth else ""
    notes = [note for note in rank.all(KeptNote) if note.step <= most.step]
    alive = max(notes, key=lambda note: note.alive)  # not the last note: at the script's end they are released
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"The graphs of {counted(most.graphs, 'loss')} of {most.seen} are still held after {most.step} steps"
        f"{per_step}.",
        evidence=(
            f"graphs held at the end of a step: {', '.join(f'{note.graphs} up to step {note.step}' for note in notes)}",
            f"the losses themselves alive at step {alive.step}: {alive.alive} of {alive.seen}",
        ),
        fix=kept.fix if kept is not None else CHECK.fix,
        where=where,
        price=Price(growth, "bytes", "memory that each step adds", HOW) if growth else None,
        ranks=tuple(rank.rank for rank, _ in keepers),
        steps_seen=most.step,
    )


def _growth(rank: RankCase, most: KeptNote) -> float | None:
    """Returns the bytes added per step between the last two samples before the most graphs were held, or None.

    The first steps do not count, as they allocate other things; nor does the sample at the end, when graphs are
    released.
    """
    looks = [note for note in rank.all(KeptNote) if note.held_bytes is not None and 4 <= note.step <= most.step]
    looks = [note for note in looks if note.step & (note.step - 1) == 0]
    if len(looks) < 2 or looks[-1].step <= looks[-2].step:
        return None
    (before, after) = looks[-2:]
    grown = (after.held_bytes or 0) - (before.held_bytes or 0)
    return grown / (after.step - before.step) if grown > 0 else None


def _where(rank: RankCase) -> tuple[PlaceRow | None, KeptLoss | None]:
    """Returns the line that keeps the losses, if the script's text shows it, and else the line of the backward pass."""
    backward = rank.place(next(iter(rank.all(BackwardNote)), None))
    kept = line_that_keeps(backward)
    return (kept.place if kept is not None else backward), kept
