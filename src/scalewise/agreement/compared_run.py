"""A run as a comparison sees it: tensors of each step by name, what each rank was given, and losses."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scalewise.records.load import RankRecord, Run
from scalewise.records.parity import AboutGivenRow, GivenRow, SettingsOfGroupsRow, TensorRow

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
Tensors = dict[tuple[int, str], dict[int, "Sketch"]]  # by step and name, by rank


@dataclass(frozen=True)
class Sketch:
    """A tensor in few numbers. Sketches can be added, as the tensors can."""

    squares: float
    projections: tuple[float, ...]
    dtype: str = "float32"
    non_finite: bool = False
    part: bool = False  # put together from parts on several ranks

    @property
    def norm(self) -> float:
        """The length of the tensor."""
        return math.sqrt(self.squares)

    @property
    def eps(self) -> float:
        """The distance of 1 from the next number of its type."""
        return EPS.get(self.dtype, EPS["float32"])

    def times(self, factor: float) -> "Sketch":
        """The tensor multiplied by a number."""
        return Sketch(self.squares * factor**2, tuple(one * factor for one in self.projections), self.dtype)


def distance(a: Sketch, b: Sketch) -> float:
    """The length of the difference of two tensors, as their projections show it."""
    if a.non_finite or b.non_finite:
        return 0.0 if a.non_finite and b.non_finite else math.inf
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a.projections, b.projections, strict=True)) / len(a.projections))


def inner(a: Sketch, b: Sketch) -> float:
    """The inner product of two tensors, as their projections show it."""
    return sum(x * y for x, y in zip(a.projections, b.projections, strict=True)) / len(a.projections)


def added(sketches: Sequence[Sketch], weight: float = 1.0) -> Sketch:
    """The sum of tensors times a weight; the length of it is what the projections show."""
    columns = zip(*(one.projections for one in sketches), strict=True)
    projections = tuple(sum(column) * weight for column in columns)
    squares = sum(one**2 for one in projections) / len(projections)
    return Sketch(squares, projections, sketches[0].dtype, any(one.non_finite for one in sketches))


@dataclass(frozen=True)
class ComparedRun:
    """The rows of all ranks of a run, put together."""

    run: Run
    gradients: Tensors
    parameters: Tensors
    given: dict[int, dict[int, GivenRow]]  # by step, by rank
    losses: dict[int, dict[int, float]]
    settings: dict[tuple[int, int], dict[str, float]]  # of rank 0, by step and optimizer
    about: tuple[AboutGivenRow, ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kinks: "ComparedRun | None" = None  # of a run that shows rounding: one that shows what values near a kink do

    @property
    def steps(self) -> int:
        """The number of steps whose gradients and whose parameters after the step are known."""
        begun = {step for step, _ in self.parameters}
        return max(begun, default=0)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that wrote rows."""
        return tuple(one.rank for one in self.run.ranks if one.parity)

    def told(self, what: str) -> tuple[str, ...]:
        """The details of all facts of one kind about what the script was given, each once."""
        return tuple(dict.fromkeys(one.detail for one in self.about if one.what == what))

    def loss(self, step: int) -> float | None:
        """The mean of the ranks' losses."""
        found = list(self.losses.get(step, {}).values())
        return sum(found) / len(found) if found else None

    def names(self, step: int) -> tuple[str, ...]:
        """The names of the tensors that have a gradient in a step."""
        return tuple(name for at, name in self.gradients if at == step)


def compared_run(run: Run) -> ComparedRun:
    """Puts the rows of a run together: parts of tensors are added up over the ranks that hold them."""
    gradients: dict[tuple[int, str], dict[int, TensorRow]] = defaultdict(dict)
    parameters: dict[tuple[int, str], dict[int, TensorRow]] = defaultdict(dict)
    given: dict[int, dict[int, GivenRow]] = defaultdict(dict)
    settings: dict[tuple[int, int], dict[str, float]] = {}
    about: list[AboutGivenRow] = []
    for rank in run.ranks:
        for row in rank.parity:
            if isinstance(row, TensorRow):
                (gradients if row.what == "gradient" else parameters)[row.step, row.name][rank.rank] = row
            elif isinstance(row, GivenRow):
                given[row.step][rank.rank] = row
            elif isinstance(row, SettingsOfGroupsRow):
                settings.setdefault((row.step, row.optimizer), row.settings)
            else:
                about.append(row)
    return ComparedRun(
        run=run,
        gradients={key: _whole(rows) for key, rows in gradients.items()},
        parameters={key: _whole(rows) for key, rows in parameters.items()},
        given=given,
        losses=_losses(run.ranks),
        settings=settings,
        about=tuple(about),
        shapes={name: next(iter(rows.values())).shape for (step, name), rows in parameters.items() if not step},
    )


def _whole(rows: dict[int, TensorRow]) -> dict[int, Sketch]:
    """The tensor as each rank holds it; where ranks hold parts, the sum of these, under the first rank."""
    if not any(row.copies for row in rows.values()):
        return {rank: _sketch(row) for rank, row in rows.items()}
    first = min(rows)
    parts = [_sketch(row).times(1.0) for row in rows.values()]
    weights = [1.0 / max(1, row.copies) for row in rows.values()]
    projections = tuple(
        sum(part.projections[index] * weight for part, weight in zip(parts, weights, strict=True))
        for index in range(len(parts[0].projections))
    )
    squares = sum(part.squares * weight for part, weight in zip(parts, weights, strict=True))
    bad = any(row.non_finite for row in rows.values())
    return {first: Sketch(squares, projections, rows[first].dtype, bad, part=True)}


def _sketch(row: TensorRow) -> Sketch:
    return Sketch(row.squares, row.projections, row.dtype, row.non_finite)


def _losses(ranks: Iterable[RankRecord]) -> dict[int, dict[int, float]]:
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for rank in ranks:
        for number, row in enumerate(rank.steps):
            if row.loss is not None:
                found[number][rank.rank] = row.loss
    return found


def equal_data(one: ComparedRun, other: ComparedRun) -> bool:
    """Tells whether a run of one rank saw, step by step, what the ranks of another saw together, in whatever order."""
    steps = range(min(one.steps, other.steps))
    return bool(steps) and all(_equal_step(one.given.get(step, {}), other.given.get(step, {})) for step in steps)


def _equal_step(one: dict[int, GivenRow], other: dict[int, GivenRow]) -> bool:
    if len(one) != 1 or not other:
        return False
    (own,) = one.values()
    if any(len(row.digests) != len(own.digests) for row in other.values()) or not own.digests:
        return False
    found = [
        _equal_sums(own.digests[index], [row.digests[index] for row in other.values()])
        or (bool(own.across) and _equal_sums(own.across[index], [row.across[index] for row in other.values()]))
        for index in range(len(own.digests))
    ]
    return all(found)


def _equal_sums(own: str, of_ranks: Sequence[str]) -> bool:
    """Tells whether one rank has the rows of all ranks, or of those that differ, or what every rank has."""
    wanted, everyone = int(own, 16), [int(one, 16) for one in of_ranks]
    return wanted in (sum(everyone) % 2**64, sum(set(everyone)) % 2**64)


def same_batch_everywhere(run: ComparedRun) -> bool:
    """Tells whether all ranks were given the same data in every step."""
    rows = [by_rank for step, by_rank in run.given.items() if step < run.steps and len(by_rank) > 1]
    return bool(rows) and all(len({row.digests for row in by_rank.values()}) == 1 for by_rank in rows)


def same_data(one: ComparedRun, other: ComparedRun) -> bool:
    """Tells whether the ranks of two runs were given the same data together, step by step."""
    steps = range(min(one.steps, other.steps))
    return bool(steps) and all(_digests_of(one, step) == _digests_of(other, step) for step in steps)


def _digests_of(run: ComparedRun, step: int) -> list[int]:
    """The sum of the digests of a step's rows over the ranks, tensor by tensor."""
    rows = list(run.given.get(step, {}).values())
    count = min((len(row.digests) for row in rows), default=0)
    return [sum(int(row.digests[index], 16) for row in rows) % 2**64 for index in range(count)]


def renamed(run: ComparedRun, like: ComparedRun) -> ComparedRun:
    """The run with the names of another, where names differ and shapes are the same in the same order."""
    here, there = list(run.shapes.items()), list(like.shapes.items())
    alike = [shape for _, shape in here] == [shape for _, shape in there]
    if not alike or run.shapes.keys() & like.shapes.keys():
        return run
    names = {mine: theirs for (mine, _), (theirs, _) in zip(here, there, strict=True)}

    def under(tensors: Tensors) -> Tensors:
        return {(step, names.get(name, name)): found for (step, name), found in tensors.items()}

    return replace(run, gradients=under(run.gradients), parameters=under(run.parameters))
