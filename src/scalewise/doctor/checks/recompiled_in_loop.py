"""Detects torch.compile compiling the same function again and again in the training loop."""

import statistics
from collections import Counter
from dataclasses import replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.times import LEAST_STEPS
from scalewise.records.notes import CompileNote
from scalewise.records.spec import Change
from scalewise.units import counted

CHECK = Check(
    name="recompiled-in-loop",
    group="gpu",
    severity="slow",
    detects="A function that torch.compile has compiled is compiled again three times or more after the first steps.",
    why="Compiled code holds for the shapes, numbers and types it was compiled for, which its guards check at each "
    "call. Where one fails, it is compiled again, which takes seconds to minutes; after eight times (recompile_limit) "
    "torch gives up and runs the function uncompiled.",
    example="model = torch.compile(model, dynamic=False)\nfor x in loader:  # sequences of many lengths\n    model(x)",
    fix="model = torch.compile(model, dynamic=True)  # or torch._dynamo.mark_dynamic(x, 1), or pad x to few lengths",
    needs="a script that uses torch.compile, and five optimizer steps",
    silent="The first compilation of each function, and one or two more: with and without gradients, or as sizes are "
    "seen to change.",
)
LEAST_TIMES = 3
FIRST_STEPS = 1  # in which torch.compile is meant to compile


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for each function."""
    steps = len(case.windows(LEAST_STEPS))
    if not case.first.all(CompileNote):
        raise Abstain("nothing was compiled by torch.compile")
    by_function: dict[str, list[CompileNote]] = {}
    for note in late(case.first):
        by_function.setdefault(note.function, []).append(note)
    return tuple(
        _finding(case, function, notes, steps) for function, notes in by_function.items() if len(notes) >= LEAST_TIMES
    )


def late(rank: RankCase) -> tuple[CompileNote, ...]:
    """Returns the compilations after the first step that a failed guard caused."""
    begin_ns = rank.windows[FIRST_STEPS - 1].notes[-1].at_ns if len(rank.windows) >= FIRST_STEPS else 0
    return tuple(note for note in rank.all(CompileNote) if note.reason and note.at_ns > begin_ns)


def _finding(case: Case, function: str, notes: list[CompileNote], steps: int) -> Finding:
    rank = case.first
    spent_ns = sum(note.duration_ns for note in notes)
    # A compiled module is entered through a function of torch's own.
    name = "the model" if "_dynamo" in function else function.partition(" ")[0]
    kinds = Counter(_kind(note.reason) for note in notes)
    common = kinds.most_common(1)[0][0]
    shown = next(note.reason for note in notes if _kind(note.reason) == common)
    middle = statistics.median(note.duration_ns for note in notes) / 1e6
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"torch.compile compiles {name} again {counted(len(notes), 'time')} in {steps} steps: {shown}.",
        evidence=(
            f"function: {function}",
            *(f"guard: {note.reason}" for note in notes[:3]),
            f"one compilation takes {middle:.0f} ms in the middle, {spent_ns / 1e9:.2f} s in all",
        ),
        fix=_fix(shown),
        where=rank.place(notes[0]),
        price=Price(
            spent_ns / 1e6 / steps, "ms per step", "compiling again", f"measured, spread over the {steps} steps seen"
        ),
        steps_seen=steps,
        change=Change("dynamic_shapes"),
    )


def _fix(guard: str) -> str:
    if "mismatch" in guard or ".size()" in guard or "shape" in guard:
        return CHECK.fix
    return (
        "# make what changes a tensor (self.register_buffer), or let torch.compile not take it for a constant:\n"
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    )


def _kind(reason: str) -> str:
    """Returns the guard's text without the digits in it."""
    return "".join(letter for letter in reason if not letter.isdigit())


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if the function is compiled less than half as often when sizes may change."""
    if replayed.trouble or not replayed.applied or not replayed.fixed.ranks:
        return finding
    before, after = (len(late(side.first)) for side in (replayed.plain, replayed.fixed))
    words = f"compiled again {before} times as it is, {after} times with sizes and numbers left open"
    proof = "replayed" if 2 * after < before else finding.proof
    return replace(finding, evidence=(*finding.evidence, words), proof=proof)
