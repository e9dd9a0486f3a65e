"""Detects several ranks that write the same checkpoint file."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.source import text_of
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import BackwardNote, ForwardNote, SaveNote, StepNote
from scalewise.units import counted

CHECK = Check(
    name="checkpoint-by-all-ranks",
    group="ddp",
    severity="wrong",
    detects="Two or more ranks of one host save to the same file at the same point of training.",
    why="They open and overwrite the file while others still write it: what is left may be a mixture that cannot be "
    "loaded, found out weeks later. And every rank waits for the disk.",
    example='torch.save(model.state_dict(), "model.pt")',
    fix='if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "model.pt")\ndist.barrier()',
    needs="two ranks or more that leave notes",
    silent="A file for each rank; distributed checkpoints; one rank that saves, whichever it is; a disk for each host.",
)
SAVING = re.compile("save|checkpoint|ckpt|snapshot", re.IGNORECASE)
WRITES = (
    "shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move", "shutil.rmtree", "os.replace", "os.rename",
    "os.remove", "os.unlink", "os.symlink", "os.link", "torch.save",
)  # fmt: skip
Moment = tuple[str, str, int]  # host, path, number of steps made before


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for each line that saves."""
    if len(case.ranks) < 2:
        raise Abstain("needs the notes of two ranks")
    saved: dict[Moment, dict[int, SaveNote]] = {}
    for rank in case.ranks:
        for moment, note in _saves(rank):
            saved.setdefault(moment, {})[rank.rank] = note
    clashes = {moment: notes for moment, notes in saved.items() if len(notes) > 1}
    ranks = {rank.rank: rank for rank in case.ranks}
    by_line: dict[PlaceRow | None, list[Moment]] = {}
    for moment, notes in clashes.items():
        lowest = min(notes)
        by_line.setdefault(ranks[lowest].place(notes[lowest]), []).append(moment)
    return tuple(_finding(case, line, moments, clashes) for line, moments in by_line.items())


def _saves(rank: RankCase) -> list[tuple[Moment, SaveNote]]:
    host = rank.record.start.host if rank.record.start else ""
    steps, found = 0, []
    for note in rank.notes:
        steps += int(isinstance(note, StepNote))
        if isinstance(note, SaveNote) and note.path and not note.path.startswith(("/dev/", "/proc/")):
            found.append(((host, note.path, steps), note))
    return found


def _finding(
    case: Case, where: PlaceRow | None, moments: list[Moment], clashes: dict[Moment, dict[int, SaveNote]]
) -> Finding:
    paths = sorted({path for _, path, _ in moments})
    ranks = tuple(sorted({rank for moment in moments for rank in clashes[moment]}))
    needless = sum(sum(note.size_bytes for note in clashes[one].values()) - _largest(clashes[one]) for one in moments)
    names = ", ".join(map(os.path.basename, paths[:3])) + (" ..." if len(paths) > 3 else "")
    saving = text_of(where, f'torch.save(state, "{names}")')
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{len(ranks)} ranks of one host write the same checkpoint {names} at the same time.",
        evidence=(
            f"ranks {', '.join(map(str, ranks))} saved to {paths[0]} after step {moments[0][2]}",
            f"{len(moments)} such saves to {counted(len(paths), 'file')} in all",
        ),
        fix=_fix(case, where, saving),
        where=where,
        price=Price(needless, "bytes", "written more than once", "counted") if needless else None,
        ranks=ranks,
        steps_seen=len(case.first.windows),
    )


def _fix(case: Case, where: PlaceRow | None, saving: str) -> str:
    """Returns the fix: one rank saves. A function that only saves, judging by its name, is guarded as a whole."""
    further = [f"# line {number}: {line}" for number, line in _writes_after(where)]
    guarded = saving
    if where is not None and _only_saves(case, where):
        guarded = f"{where.function}(...)"
        also = ["# the call, not only the line that saves, for this writes as well:"]
    else:
        also = ["# and under the same condition, for this writes as well:"]
    lines = ["if torch.distributed.get_rank() == 0:", f"    {guarded}", "torch.distributed.barrier()"]
    return "\n".join([*lines, *(also if further else []), *further])


def _only_saves(case: Case, where: PlaceRow) -> bool:
    """Returns True if the function is named after saving and does not train as well."""
    kinds = (ForwardNote, BackwardNote, StepNote)
    places = (case.first.place(note) for note in case.first.notes if isinstance(note, kinds))
    trains = any(one is not None and (one.file, one.function) == (where.file, where.function) for one in places)
    return SAVING.search(where.function) is not None and not trains


def _writes_after(where: PlaceRow | None) -> Iterator[tuple[int, str]]:
    """Yields further lines of the same function that change files, judging by the names of what they call."""
    if where is None:
        return
    try:
        source = Path(where.file).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    around = [
        one for one in functions if one.name == where.function and one.lineno <= where.line <= (one.end_lineno or 0)
    ]
    lines = source.splitlines()
    for node in ast.walk(around[-1]) if around else ():
        if isinstance(node, ast.Call) and node.lineno > where.line and ast.unparse(node.func) in WRITES:
            yield node.lineno, lines[node.lineno - 1].strip()


def _largest(notes: dict[int, SaveNote]) -> int:
    return max(note.size_bytes for note in notes.values())
