"""The stretches of a run that the script timed: two readings of a clock, the notes in between, and their use.

The readings are noted in the run. That the script subtracts one from the other, and whether it averages the difference,
only its source shows.
"""

import ast
import bisect
import functools
import itertools
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.doctor.case import RankCase
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import (
    BackwardNote,
    ClockNote,
    CollectiveNote,
    DeviceSyncNote,
    ForwardNote,
    HostReadNote,
    Note,
    SaveNote,
    ScalerNote,
    StepNote,
)

_MEANS = ("mean", "fmean", "average", "nanmean")
_ROUNDS = 4  # rounds of following a name to what is computed from it


@dataclass(frozen=True)
class Measure:
    """A difference of two clock readings in the source."""

    begins: frozenset[int]  # lines at which the earlier reading may have been made
    ends: frozenset[int]  # lines at which the later one may have been made
    averaged: bool  # it is divided by something other than a unit, or divides something, or a mean is taken of it
    divisors: frozenset[float]  # constants that it is divided by: units, or the number of steps
    gathered: bool = False  # the average is of a sum or a list of such differences, so not the rate of a single step


@functools.lru_cache(maxsize=64)
def measures(file: str, clock_lines: frozenset[int]) -> tuple[Measure, ...]:
    """Returns the differences between clocks read at these lines of a file; none if the file cannot be read."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(_Source(tree, clock_lines).measures())


class _Source:
    def __init__(self, tree: ast.Module, clock_lines: frozenset[int]) -> None:
        self._nodes = list(ast.walk(tree))
        self._clock_lines = clock_lines
        self._read_at: dict[str, set[int]] = {}  # name -> lines of the readings it may hold
        for _ in range(_ROUNDS):
            for name, value in self._assignments():
                self._read_at.setdefault(name, set()).update(self._readings(value))

    def measures(self) -> Iterator[Measure]:
        """Yields every difference whose earlier end is a name that holds a reading."""
        for node in self._nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                begins, ends = self._readings(node.right), self._readings(node.left)
                if begins and ends and _name(node.right) is not None:
                    names = self._results(node)
                    averaged, divisors = self._average(node, names)
                    gathered, _ = self._average(None, self._gathered(node, names))
                    yield Measure(frozenset(begins), frozenset(ends), averaged, frozenset(divisors), gathered)

    def _assignments(self) -> Iterator[tuple[str, ast.expr]]:
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from _pairs(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                yield from _pairs(node.target, node.value)

    def _readings(self, value: ast.expr) -> set[int]:
        """Returns the lines of the clock readings that a value stands for: a clock's call, or a name that holds one."""
        name = _name(value)
        if name is not None:
            return self._read_at.get(name, set())
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):  # another unit
            return self._readings(value.left) | self._readings(value.right)
        if isinstance(value, ast.Call) and not value.args:
            return set(range(value.lineno, (value.end_lineno or value.lineno) + 1)) & self._clock_lines
        return set()

    def _average(self, difference: ast.BinOp | None, names: Container[str | None]) -> tuple[bool, set[float]]:
        """Returns True if the difference or one of the names is averaged, and the constants that divide it."""
        divisors: set[float] = set()
        averaged = False
        for node in self._nodes:
            over = _division(node)
            if over is not None:
                above, below = over
                if _holds(below, difference, names):
                    averaged = True
                elif _holds(above, difference, names):
                    number = below.value if isinstance(below, ast.Constant) else None
                    averaged = averaged or number is None
                    divisors |= {float(number)} if isinstance(number, int | float) else set()
            elif isinstance(node, ast.Call) and _last_name(node.func) in _MEANS and node.args:
                averaged = averaged or _holds(node.args[0], difference, names)
        return averaged, divisors

    def _results(self, difference: ast.BinOp) -> set[str]:
        """Returns the names that hold the difference, something computed from it, or a list it was added to."""
        names: set[str] = set()
        for _ in range(_ROUNDS):
            for name, value in self._assignments():
                if not self._read_at[name] and _holds(value, difference, names):
                    names.add(name)
            for node in self._nodes:
                added = _added(node)
                if added is not None and _holds(added[1], difference, names):
                    names.add(added[0])
        return names

    def _gathered(self, difference: ast.BinOp, names: Container[str | None]) -> set[str]:
        """Returns, of these names, those of sums and lists, and the names of what is computed from them."""
        gathered = {added[0] for added in map(_added, self._nodes) if added and _holds(added[1], difference, names)}
        for _ in range(_ROUNDS):
            gathered |= {name for name, value in self._assignments() if _holds(value, None, gathered)}
        return gathered


def _added(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Returns the name of a sum or list and what is added to it: `total += x`, `times.append(x)`; else None."""
    name = value = None
    if isinstance(node, ast.AugAssign):
        name, value = _name(node.target), node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        name, value = _name(node.func.value), next(iter(node.args), None)
    return None if name is None or value is None else (name, value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    name = _name(target)
    if name is not None:
        yield name, value


def _name(node: ast.expr) -> str | None:
    """Returns `start` or `self.start` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and _name(node.value) is not None:
        return f"{_name(node.value)}.{node.attr}"
    return None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _division(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
        return node.left, node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.FloorDiv):
        return node.target, node.value
    return None


def _holds(node: ast.expr, difference: ast.BinOp | None, names: Container[str | None]) -> bool:
    """Returns True if an expression contains the difference or a name for it; a slice of a list does not count."""
    if node is difference:
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return False
    if _name(node) in names:
        return True
    return any(_holds(child, difference, names) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


EVENT = "Event.record"


@dataclass(frozen=True)
class ClockSpan:
    """Two clock readings that belong together."""

    begin: int  # index of the earlier reading among the rank's notes
    end: int
    notes: tuple[Note, ...]  # notes between the two readings
    seconds: float
    where: PlaceRow  # line of the later reading
    started: PlaceRow
    measure: Measure | None  # None: one reading follows the other, but no subtraction was seen

    @property
    def steps(self) -> int:
        """The number of optimizer steps that ended in the span."""
        return sum(isinstance(note, StepNote) for note in self.notes)

    @property
    def works(self) -> bool:
        """True if the device was given work in the span."""
        return any(map(is_work, self.notes))

    @property
    def waited(self) -> bool:
        """True if the host waited for the device after the last work."""
        for note in reversed(self.notes):
            if is_work(note) or waits(note):
                return waits(note)
        return False


def is_work(note: Note) -> bool:
    """Returns True if the note shows work given to the device."""
    return isinstance(note, ForwardNote | BackwardNote | StepNote)


def waits(note: Note) -> bool:
    """Returns True if the host waited for the device: explicitly, by reading from it, or for a scaler's decision."""
    if isinstance(note, CollectiveNote):
        return note.operation == "barrier"
    if isinstance(note, ScalerNote):
        return note.call == "step"
    return isinstance(note, DeviceSyncNote | HostReadNote | SaveNote)


def undisturbed_from(rank: RankCase) -> int:
    """Returns the index of the first note after the closely examined passes, which wait for the device."""
    close = [
        index
        for index, note in enumerate(rank.notes)
        if (isinstance(note, ForwardNote) and note.digest is not None)
        or (isinstance(note, BackwardNote) and not (note.factor is None and note.gained is None))
    ]
    return close[-1] + 1 if close else 0


def spans_of(rank: RankCase) -> tuple[ClockSpan, ...]:
    """Returns the spans that the script measured, in the order of the later readings."""
    by_line: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, note in enumerate(rank.notes):
        place = rank.place(note) if isinstance(note, ClockNote) and note.function != EVENT else None
        if place is not None:
            by_line[place.file, place.line].append(index)
    found: list[ClockSpan] = []
    linked: set[int] = set()
    for file in {file for file, _ in by_line}:
        for measure in measures(file, frozenset(line for name, line in by_line if name == file)):
            begins, ends = (
                sorted(index for line in lines for index in by_line.get((file, line), ()))
                for lines in (measure.begins, measure.ends)
            )
            linked.update(begins, ends)
            found += [span for end in ends if (span := _linked(rank, begins, end, measure)) is not None]
    found += _in_a_row(rank, sorted(index for indices in by_line.values() for index in indices), linked)
    return tuple(sorted(found, key=lambda span: (span.end, span.begin)))


def _linked(rank: RankCase, begins: list[int], end: int, measure: Measure) -> ClockSpan | None:
    """Returns the span from the last earlier reading that the subtracted name can hold, or None."""
    position = bisect.bisect_left(begins, end)
    return _span(rank, begins[position - 1], end, measure) if position else None


def _in_a_row(rank: RankCase, clocks: list[int], linked: set[int]) -> list[ClockSpan]:
    """Returns spans of consecutive readings that no subtraction links, as of clocks read in a helper function."""
    found = []
    for begin, end in itertools.pairwise(clocks):
        if begin not in linked and end not in linked:
            span = _span(rank, begin, end, None)
            found += [span] if span is not None else []
    return found


def _span(rank: RankCase, begin: int, end: int, measure: Measure | None) -> ClockSpan | None:
    first, last = rank.notes[begin], rank.notes[end]
    started, where = rank.place(first), rank.place(last)
    if started is None or where is None:
        return None
    return ClockSpan(begin, end, rank.notes[begin + 1 : end], (last.at_ns - first.at_ns) / 1e9, where, started, measure)
