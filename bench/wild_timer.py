"""The hand timer of `bench.wild`: a copy of a script with two marked lines timed, and the times read back."""

import ast
import struct
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.wild_list import Mark
from scalewise.analysis.series import series
from scalewise.errors import BadRequest
from scalewise.records.load import Run

WARMUP_STEPS = 5
_TIMER = '__import__("hand_timer")'


@dataclass(frozen=True)
class HandTime:
    """Medians after the warm-up, in seconds; each step is that of its slowest rank."""

    step_seconds: float
    loop_seconds: float | None  # from one step's end to the next one's
    steps: int


def put_marks(path: Path, begin: Mark, end: Mark) -> None:
    """Puts the timer's calls before the one line and after the statement that starts at the other."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text)
    first, last = _statement(tree, lines, begin, path), _statement(tree, lines, end, path)
    calls = {
        (first.lineno - 1, "begin"): lines[first.lineno - 1],
        (last.end_lineno or 0, "end"): lines[last.lineno - 1],
    }
    for (where, what), line in sorted(calls.items(), reverse=True):
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(where, f"{indent}{_TIMER}.{what}()")
    lines.insert(_after_the_head(tree), f"{_TIMER}.start()")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _statement(tree: ast.Module, lines: list[str], mark: Mark, path: Path) -> ast.stmt:
    numbers = [number for number, line in enumerate(lines, 1) if line.strip() == mark.text]
    if not numbers:
        raise BadRequest(f"{path} has no line {mark.text!r}.", "Give the whole line, without its indentation.")
    if len(numbers) > 1 and mark.number is None:
        raise BadRequest(f"{path} has {len(numbers)} lines {mark.text!r}.", "Say which: begin_number, end_number.")
    if mark.number is not None and mark.number > len(numbers):
        raise BadRequest(f"{path} has {len(numbers)} lines {mark.text!r}, and no number {mark.number}.")
    wanted = numbers[(mark.number or 1) - 1]
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno == wanted:
            return node
    raise BadRequest(f"Line {wanted} of {path}, {mark.text!r}, does not start a statement.")


def _after_the_head(tree: ast.Module) -> int:
    """The line after the docstring and the __future__ imports, which must stay first."""
    line = 0
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        line = node.end_lineno or line
    return line


def hand_time(folder: Path, ranks: int) -> HandTime | None:
    """What the timer wrote of a run with so many ranks; None where too few steps were timed."""
    of_ranks = list(_stamps_of(folder, ranks).values())
    steps = min((len(one) for one in of_ranks), default=0)
    if steps <= WARMUP_STEPS or len(of_ranks) < ranks:
        return None
    kept = range(WARMUP_STEPS, steps)
    durations = [max(rank[step][1] - rank[step][0] for rank in of_ranks) for step in kept]
    loops = [max(rank[step][1] - rank[step - 1][1] for rank in of_ranks) for step in kept]
    return HandTime(median(durations) * 1e-9, median(loops) * 1e-9, len(durations))


def step_by_step(folder: Path, run: Run) -> float | None:
    """Told over hand-timed, less 1: the median over single steps of all ranks, each with itself.

    Unlike two medians, this does not depend on which steps a loaded machine made slow. Where optimizers step in turns,
    the timer may have timed their iterations, and these are compared. None where the two did not count the same: a step
    that one of them did not see.
    """
    ratios: list[float] = []
    iterations = series(run)
    records = {record.rank: record for record in run.ranks}
    for rank, stamps in _stamps_of(folder, run.spec.ranks).items():
        record = records.get(rank)
        if record is None or record.end is None:
            return None
        if record.end.steps == len(stamps):
            told = {row.step: row.step_ns for row in record.steps}  # with gaps where fast steps were only counted
        elif iterations is not None and iterations.step_seconds.shape[1] == len(stamps):
            of_rank = iterations.step_seconds[iterations.ranks.index(rank)]
            told = dict(enumerate((of_rank * 1e9).tolist()))
        else:
            return None
        timed = [end - begin for begin, end in stamps]
        ratios += [told[step] / timed[step] - 1 for step in told if step >= WARMUP_STEPS]
    return median(ratios) if ratios else None


def _stamps_of(folder: Path, ranks: int) -> dict[int, list[tuple[int, int]]]:
    """By rank: when each step began and ended."""
    return {int(path.name.split("-")[1]): _stamps(path) for path in sorted(folder.glob(f"{ranks}-*.steps"))}


def _stamps(path: Path) -> list[tuple[int, int]]:
    data = path.read_bytes()
    return [(begin, end) for begin, end in struct.iter_unpack("<qq", data[: len(data) // 16 * 16])]
