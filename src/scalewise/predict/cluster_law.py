"""The law of a data-parallel step on a cluster, fitted to what was measured of one model on few placements.

    step          = computing + exposed
    computing     = that of the batch x company of other ranks
    communication = 2 (n - 1) / n x seconds of a round, inside a node or between nodes, growing with ranks
    exposed       = waiting for the slowest rank + what of the communication computing does not hide

`exposed_part` is the timeline of DDP's buckets in closed form: they are ready evenly over backward and sent one after
another, so the end of the last one is the later of two ends (`tests/predict/test_cluster_law.py` holds it against
`predict/timeline.py`).

What a table does not determine comes from a prior: a mean and a standard deviation for each parameter. So a fit always
exists, and a parameter that nothing was measured of keeps its whole uncertainty, which widens the interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from scalewise.analysis.estimate import Floats
from scalewise.predict.cluster_table import MeasuredPlacement
from scalewise.predict.placement import Placement

Ints = NDArray[np.int64]
SMOOTH = 0.1  # of the communication: how gradually hiding ends, as steps and buckets differ
ROUNDS, FEW_ROUNDS = 60, 8
CLOSE = 1e-4  # of the sum of squares
SHIFT = 1e-5  # of a parameter, for a difference quotient
FAR = 2.0  # standard deviations: a point farther off pulls no harder than one so far off
WEIGHTLESS = 1e3  # standard deviation of the logarithm of a base, about which nothing is known before


@dataclass(frozen=True)
class Prior:
    """The mean and standard deviation that are taken for a parameter before anything is measured."""

    mean: float
    deviation: float


# Where these come from: decision 0026. Growth is per doubling of ranks; all are logarithms.
PRIORS: dict[str, Prior] = {
    "alone": Prior(0.03, 0.07),  # one GPU alone over one among others
    "company": Prior(0.02, 0.08),  # growth of computing
    "company_by_batch": Prior(0.0, 0.06),  # how it changes with the logarithm of the batch
    "inside": Prior(0.0, 3.0),  # seconds of a round between two GPUs of a node; the mean is set from the step
    "inside_growth": Prior(0.0, 0.2),
    "between": Prior(0.0, 3.0),  # seconds of a round between two GPUs of two nodes
    "between_growth": Prior(0.04, 0.08),
    "many": Prior(-0.08, 0.15),  # three nodes and more over two: a tree, other neighbours, more flows
    "many_growth": Prior(0.0, 0.04),
    "hidden": Prior(log(0.55), 0.25),  # share of computing behind which messages are hidden
    "last": Prior(log(0.06), 0.8),  # share of the communication that nothing hides
    "waiting": Prior(log(0.02), 0.8),  # for the slowest rank, as a share of computing, for the first doubling of ranks
}
NAMES = tuple(PRIORS)
POOLED = (
    "inside_growth",
    "between_growth",
    "company",
    "hidden",
    "many",
    "many_growth",
)  # alike for models of a cluster
SLOWED_GROWTH = Prior(0.3, 0.5)  # of growth beyond the largest placement, as a share of that up to it
GUESSED_INSIDE, GUESSED_BETWEEN = 0.1, 0.3  # of computing; only where the search for the best fit begins


@dataclass(frozen=True)
class Noise:
    """The distance of a single row from its law, as shares of the step and of what is exposed."""

    computing: float = 0.04
    exposed: float = 0.12

    def of_step(self, exposed: Floats, step: Floats) -> Floats:
        """The standard deviation of the logarithm of a measured step."""
        return np.hypot(self.computing, self.exposed * exposed / step)


@dataclass(frozen=True)
class Shape:
    """Placements as arrays: nodes, GPUs and those of the busiest node."""

    nodes: Floats
    gpus: Floats
    busiest: Floats


def shape_of(placements: Sequence[Placement]) -> Shape:
    """The arrays of these placements."""
    rows = [(one.nodes, one.gpus, one.busiest) for one in placements]
    nodes, gpus, busiest = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Shape(nodes, gpus, busiest)


def ring_share(gpus: Floats) -> Floats:
    """The share of a message that each rank sends in an all-reduce around a ring."""
    return 2 * (gpus - 1) / np.maximum(gpus, 1)


def exposed_part(communication: Floats, hidden: Floats, last: Floats) -> Floats:
    """The time for which a rank waits after its last gradient, by when the first bucket is ready and the last."""
    scale = SMOOTH * communication + 1e-12
    beyond = (1 - last) * communication - hidden
    return last * communication + scale * np.logaddexp(0, beyond / scale)


@dataclass(frozen=True)
class ModelRows:
    """The rows of one model, as arrays."""

    shape: Shape
    batches: Floats
    steps: Floats
    exposed: Floats  # nan: not measured

    @cached_property
    def sizes(self) -> Floats:
        """The local batches, each once."""
        return np.unique(self.batches)

    @cached_property
    def which(self) -> Ints:
        """The number of the batch of each row."""
        return np.searchsorted(self.sizes, self.batches)

    @cached_property
    def computing(self) -> Floats:
        """The step less what was exposed, as far as that is known."""
        return self.steps - np.nan_to_num(self.exposed)

    @cached_property
    def most_gpus(self) -> float:
        """The largest number of GPUs."""
        return float(self.shape.gpus.max())


def model_rows(rows: Sequence[MeasuredPlacement]) -> ModelRows:
    """The arrays of these rows."""
    exposed = [np.nan if row.exposed_seconds is None else row.exposed_seconds for row in rows]
    return ModelRows(
        shape_of([row.placement for row in rows]),
        np.array([row.local_batch for row in rows]),
        np.array([row.step_seconds for row in rows]),
        np.array(exposed),
    )


@dataclass(frozen=True)
class Law:
    """The fitted law of one model: parameters, how well they are known, and the range that was measured."""

    measured: ModelRows
    values: Floats  # logarithm of computing for each batch, then the parameters in the order of NAMES
    covariance: Floats
    slowed: float = SLOWED_GROWTH.mean

    def __getitem__(self, name: str) -> float:
        return float(self.values[len(self.measured.sizes) + NAMES.index(name)])

    @property
    def knows_many(self) -> bool:
        """Tells whether three nodes or more were measured."""
        return bool(self.measured.shape.nodes.max() > 2)

    def base(self, batches: Floats) -> Floats:
        """The logarithm of computing for these batches, straight between measured ones on logarithmic axes."""
        sizes, known = np.log(self.measured.sizes), self.values[: len(self.measured.sizes)]
        wanted = np.log(batches)
        found = np.interp(wanted, sizes, known)
        if len(sizes) > 1:
            for end, beside in ((0, 1), (-1, -2)):
                slope = np.clip((known[end] - known[beside]) / (sizes[end] - sizes[beside]), 0.0, 1.0)
                outside = wanted < sizes[0] if end == 0 else wanted > sizes[-1]
                found = np.where(outside, known[end] + slope * (wanted - sizes[end]), found)
        return found

    def parts(self, shape: Shape, batches: Floats) -> tuple[Floats, Floats]:
        """Computing and exposed seconds of these placements."""
        doublings, slowed = self._doublings(shape, least=1.0), self.slowed
        by_batch = np.log(batches) - np.log(self.measured.sizes).mean()
        growth = self["company"] + self["company_by_batch"] * by_batch
        grown = growth * doublings[0] + np.maximum(growth, 0) * slowed * doublings[1]
        computing = np.exp(self.base(batches) + self["alone"] * (shape.gpus == 1) + grown)
        return computing, np.where(shape.gpus > 1, self._exposed(shape, computing), 0.0)

    def steps(self, shape: Shape, batches: Floats) -> Floats:
        """The seconds of a step."""
        computing, exposed = self.parts(shape, batches)
        return computing + exposed

    def _exposed(self, shape: Shape, computing: Floats) -> Floats:
        within, beyond = self._doublings(shape, least=2.0)
        gpus, nodes = np.maximum(shape.gpus, 2), np.maximum(shape.nodes, 2)
        inside = self["inside"] + self["inside_growth"] * np.log2(gpus / 2)
        growth = self["between_growth"] * within + self.slowed * np.maximum(self["between_growth"], 0) * beyond
        many = self["many"] * (nodes > 2) + self["many_growth"] * np.log2(nodes / 2)
        seconds = np.exp(np.where(shape.nodes == 1, inside, self["between"] + growth + many))
        communication = seconds * ring_share(gpus)
        waiting: Floats = np.exp(self["waiting"]) * computing * np.sqrt(np.log2(gpus))
        return waiting + exposed_part(communication, np.exp(self["hidden"]) * computing, np.exp(self["last"]))

    def _doublings(self, shape: Shape, least: float) -> tuple[Floats, Floats]:
        """Doublings of ranks from `least` on: up to what was measured, or two nodes as full as these; and beyond."""
        known = np.maximum(self.measured.most_gpus, 2 * shape.busiest)
        gpus = np.maximum(shape.gpus, least)
        within = np.minimum(gpus, np.maximum(known, least))
        return np.log2(within / least), np.log2(gpus / within)


def fit_law(
    measured: ModelRows, priors: Mapping[str, Prior], noise: Noise, start: Law | None = None, rounds: int = ROUNDS
) -> Law:
    """The most likely law, by Gauss and Newton's steps with Marquardt's damping; far points are held back."""
    search = _Search(measured, priors, noise)
    values = search.first() if start is None else search.carried(start)
    damping, errors = 1e-2, search.errors(values)
    weights = search.weights(errors)
    for _ in range(rounds):
        slopes = search.slopes(values, errors) * weights[:, None]
        normal, down = slopes.T @ slopes, slopes.T @ (errors * weights)
        now = float(np.sum((errors * weights) ** 2))
        gain = 0.0
        for _ in range(12):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -down)
            there = search.errors(values + step)
            gain = now - float(np.sum((there * weights) ** 2))
            if gain > 0:
                break
            damping *= 4
        if gain <= 0:
            break
        values, errors, damping = values + step, there, max(damping / 5, 1e-9)
        weights = search.weights(errors)
        if gain < CLOSE * now:
            break
    slopes = search.slopes(values, errors) * weights[:, None]
    covariance: Floats = np.linalg.inv(slopes.T @ slopes).astype(np.float64)
    return Law(measured, values, covariance)


class _Search:
    """The errors that a fit makes small, in standard deviations: of steps, of what is exposed, and from the priors."""

    def __init__(self, measured: ModelRows, priors: Mapping[str, Prior], noise: Noise) -> None:
        self._measured, self._noise = measured, noise
        self._bases = len(measured.sizes)
        self._means = np.array([priors[name].mean for name in NAMES])
        self._deviations = np.array([priors[name].deviation for name in NAMES])
        self._blank = Law(measured, np.zeros(0), np.zeros((0, 0)))

    def first(self) -> Floats:
        """The start of the search: medians of what was measured, and the priors' means."""
        measured, ring = self._measured, ring_share(np.maximum(self._measured.shape.gpus, 2))
        bases = [np.log(np.median(measured.computing[measured.which == one])) for one in range(self._bases)]
        values = np.array([*bases, *self._means])
        several, many = measured.shape.gpus > 1, measured.shape.nodes > 1
        for name, of, hidden in (("inside", several & ~many, 0.2), ("between", many, 0.4)):
            known = of & ~np.isnan(measured.exposed)
            if known.any():
                seconds = np.median((measured.exposed + hidden * measured.computing)[known] / ring[known])
                values[self._bases + NAMES.index(name)] = log(max(float(seconds), 1e-9))
        return values

    def carried(self, start: Law) -> Floats:
        """The values of another fit, for the batches that are here."""
        return np.array([*start.base(self._measured.sizes), *start.values[len(start.measured.sizes) :]])

    def errors(self, values: Floats) -> Floats:
        """All errors: for each row that of its step, for each row that of its exposed part, for each parameter one."""
        measured = self._measured
        law = replace(self._blank, values=values)
        computing, exposed = law.parts(measured.shape, measured.batches)
        step = computing + exposed
        alone = measured.shape.gpus == 1
        of_step = np.log(np.where(alone, measured.computing, measured.steps) / step)
        of_step = of_step / self._noise.of_step(exposed, step)
        about = np.hypot(0.15 * (np.nan_to_num(measured.exposed) + exposed), 0.07 * step)
        of_exposed = np.where(alone | np.isnan(measured.exposed), 0.0, (measured.exposed - exposed) / about)
        own = (values[self._bases :] - self._means) / self._deviations
        return np.concatenate([of_step, np.nan_to_num(of_exposed), values[: self._bases] / WEIGHTLESS, own])

    def weights(self, errors: Floats) -> Floats:
        """The weights of all errors: points that lie far off have less; none of the priors is held back."""
        rows = 2 * len(self._measured.steps)
        far = np.abs(errors[:rows])
        return np.concatenate([np.sqrt(FAR / np.maximum(far, FAR)), np.ones(len(errors) - rows)])

    def slopes(self, values: Floats, errors: Floats) -> Floats:
        """The change of each error with each value; a base moves only the rows of its batch, so all move at once."""
        rows, bases = len(self._measured.steps), self._bases
        found = np.zeros((len(errors), len(values)))
        moved = values.copy()
        moved[:bases] += SHIFT
        change = (self.errors(moved) - errors) / SHIFT
        for part in (np.arange(rows), rows + np.arange(rows)):
            found[part, self._measured.which] = change[part]
        found[2 * rows + np.arange(bases), np.arange(bases)] = change[2 * rows : 2 * rows + bases]
        for one in range(bases, len(values)):
            moved = values.copy()
            moved[one] += SHIFT
            found[:, one] = (self.errors(moved) - errors) / SHIFT
        return found
