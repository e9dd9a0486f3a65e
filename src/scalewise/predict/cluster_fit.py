"""Fits the laws of all models of one cluster together, and finds out how far they are off what was held back.

Models of one cluster share its network, so what a few rows of one cannot tell is learnt from the others. How wide an
interval must be is learnt as well: placements are held back in turn, the largest ones together, and where the law was
farther off than it said, every interval is widened by as much.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, log
from statistics import NormalDist

import numpy as np

from scalewise.analysis.estimate import Estimate, Floats
from scalewise.predict.cluster_law import (
    FEW_ROUNDS,
    GUESSED_BETWEEN,
    GUESSED_INSIDE,
    NAMES,
    POOLED,
    PRIORS,
    SHIFT,
    SLOWED_GROWTH,
    Law,
    Noise,
    Prior,
    Shape,
    fit_law,
    model_rows,
    shape_of,
)
from scalewise.predict.cluster_table import MeasuredPlacement
from scalewise.predict.placement import Placement, even_placement
from scalewise.predict.prediction import LEVEL, QUANTILE

FOLDS = 4  # groups of placements that are held back in turn
NOISE_ROWS = 12  # the weight of the noise that is taken before anything is measured, in rows
LITTLE_EXPOSED, MUCH_EXPOSED = 0.15, 0.3  # of a step: rows that tell the noise of computing, and that of messages
FARTHEST_BATCH = 0.10  # standard deviation for each doubling of a batch beyond the measured ones
COMPANY_BEYOND = 0.03  # the same for each doubling of ranks beyond the measured ones: computing's share
LEAST_CHECKED = 8  # rows held back, below which coverage is not known and intervals are widened by UNCHECKED
UNCHECKED = 1.3
BYTES_PER_PARAMETER = 4  # of a gradient in float32
# Standard deviations beside that of a named link: of messages by their bytes alone, of the ratio of its two rates, and
# of that ratio for each factor e that they are apart.
SIZE_SPREAD, RATIO_SPREAD, FARTHER_RATES = 0.4, 0.3, 0.15
MOST_WIDENED = 4.0


@dataclass(frozen=True)
class LinkPriors:
    """The rates of a link, known before anything is measured over it."""

    name: str
    inside_rate: float = 0.0  # bytes per second; 0: not named
    between_rate: float = 0.0
    spread: float = 0.0  # standard deviation of the logarithm of either rate


@dataclass(frozen=True)
class PredictedPlacement:
    """The prediction of one placement."""

    model: str
    local_batch: float
    placement: Placement
    step: Estimate  # seconds
    computing_seconds: float
    exposed_seconds: float
    anchor: Placement  # the largest one that was measured of this model

    @property
    def samples_per_second(self) -> float:
        """Samples of all GPUs."""
        return self.placement.gpus * self.local_batch / self.step.value


@dataclass(frozen=True)
class ClusterFit:
    """The laws of one cluster's models, and how far they can be believed."""

    cluster: str
    laws: dict[str, Law]
    noise: Noise
    widened: float  # by which intervals were too narrow for what was held back; at least 1
    held_back: int  # rows that were held back and predicted
    inside_share: float  # of them, inside the interval before it was widened; nan: none
    link: str = ""  # what the part between nodes rests on if it was not measured

    def predict(
        self, model: str, local_batch: float, placements: Sequence[Placement]
    ) -> tuple[PredictedPlacement, ...]:
        """The predicted steps of one model with one batch on each placement."""
        law, shape = self.laws[model], shape_of(placements)
        batches = np.full(len(placements), local_batch)
        computing, exposed = law.parts(shape, batches)
        steps = computing + exposed
        reach = QUANTILE * self._deviations(law, shape, batches)
        anchor = _anchor(law)
        return tuple(
            PredictedPlacement(
                model=model,
                local_batch=local_batch,
                placement=placement,
                step=_around(float(step), float(half)),
                computing_seconds=float(part),
                exposed_seconds=float(waits),
                anchor=anchor,
            )
            for placement, step, half, part, waits in zip(placements, steps, reach, computing, exposed, strict=True)
        )

    def certainty(self, model: str, local_batch: float, one: Placement, other: Placement) -> float:
        """The probability that the second gives more samples per second than the first; what both share cancels."""
        law, shape = self.laws[model], shape_of([one, other])
        batches = np.full(2, local_batch)
        gained = log(other.gpus / one.gpus) - float(np.diff(np.log(law.steps(shape, batches)))[0])
        slopes = np.diff(_slopes(law, shape, batches), axis=0)
        beyond = np.diff(_beyond(law, shape, batches), axis=0)
        variance = float((slopes @ law.covariance @ slopes.T)[0, 0]) + float(np.sum(beyond**2))
        deviation = self.widened * hypot(variance**0.5, 0.01)
        return NormalDist().cdf(gained / deviation)

    def _deviations(self, law: Law, shape: Shape, batches: Floats) -> Floats:
        """The standard deviations of the logarithms of steps that a run would measure there."""
        slopes = _slopes(law, shape, batches)
        known = np.einsum("ij,jk,ik->i", slopes, law.covariance, slopes)
        beyond = np.sum(_beyond(law, shape, batches) ** 2, axis=1)
        _, exposed = law.parts(shape, batches)
        row = self.noise.of_step(exposed, law.steps(shape, batches))
        found: Floats = self.widened * np.sqrt(known + beyond + row**2)
        return found


def fit_cluster(rows: Sequence[MeasuredPlacement], link: LinkPriors | None = None, check: bool = True) -> ClusterFit:
    """The fit of one cluster's rows; `check` holds placements back to learn how wide intervals must be."""
    laws, noise = _laws(rows, link, None, Noise())
    noise = _noise(laws.values(), noise)
    laws, noise = _laws(rows, link, laws, noise)
    fit = ClusterFit(rows[0].cluster, laws, noise, 1.0, 0, float("nan"), link.name if link else "")
    return _checked(fit, rows, link) if check else replace(fit, widened=UNCHECKED)


def _laws(
    rows: Sequence[MeasuredPlacement], link: LinkPriors | None, before: Mapping[str, Law] | None, noise: Noise
) -> tuple[dict[str, Law], Noise]:
    """The laws of all models, the second time with what the models have in common as prior."""
    by_model = {
        model: [row for row in rows if row.model == model] for model in dict.fromkeys(row.model for row in rows)
    }
    found = dict(before or {})
    for together in (False, True):
        shared = _shared(found.values()) if together or before else {}
        for model, own in by_model.items():
            priors = _own_priors(own, link, PRIORS | shared)
            start = found.get(model)
            found[model] = fit_law(model_rows(own), priors, noise, start)
    return found, noise


def _shared(laws: Iterable[Law]) -> dict[str, Prior]:
    """Priors from all models together: the mean over them, and how far they differ; the first prior counts as one."""
    found = list(laws)
    shared = {}
    for name in POOLED:
        prior = PRIORS[name]
        told = [law[name] for law in found if _tells(law, name)]
        mean = (sum(told) + prior.mean) / (len(told) + 1)
        squares = sum((one - mean) ** 2 for one in told) + prior.deviation**2
        if told:
            deviation = min(prior.deviation, max(prior.deviation / 3, (squares / (len(told) + 1)) ** 0.5))
            shared[name] = Prior(mean, deviation)
    return shared


def _tells(law: Law, name: str) -> bool:
    """Tells whether anything that was measured determines the parameter."""
    shape = law.measured.shape
    if name.startswith("many"):
        return bool(shape.nodes.max() > 2 + (name == "many_growth"))
    if name == "inside_growth":
        return bool((shape.gpus[shape.nodes == 1] > 2).any())
    if name == "between_growth":
        return len(np.unique(shape.gpus[shape.nodes > 1])) > 1
    return bool(shape.gpus.max() > 1)


def _own_priors(
    rows: Sequence[MeasuredPlacement], link: LinkPriors | None, shared: dict[str, Prior]
) -> dict[str, Prior]:
    """The priors of one model: what a round takes follows from its gradients and the link, where both are known."""
    computing = float(np.median(model_rows(rows).computing))
    inside = Prior(log(GUESSED_INSIDE * computing), PRIORS["inside"].deviation)
    between = Prior(log(GUESSED_BETWEEN * computing), PRIORS["between"].deviation)
    if link is not None:
        told = list(_between_by_link(rows, link, shared | {"inside": inside}))
        sizes = [BYTES_PER_PARAMETER * row.parameters for row in rows if row.parameters]
        if sizes and link.inside_rate:
            inside = Prior(log(sizes[0] / link.inside_rate), hypot(link.spread, SIZE_SPREAD))
        between = _together(told, link.spread) if told else between
    return shared | {"inside": inside, "between": between}


def _between_by_link(rows: Sequence[MeasuredPlacement], link: LinkPriors, shared: dict[str, Prior]) -> Iterator[Prior]:
    """The priors that a named link gives for a round between nodes: by gradients, and by what one node shows.

    A round inside a node holds more than bytes, so the farther the rates of both links are apart, the less it says.
    """
    sizes = [BYTES_PER_PARAMETER * row.parameters for row in rows if row.parameters]
    if sizes and link.between_rate:
        yield Prior(log(sizes[0] / link.between_rate), hypot(link.spread, SIZE_SPREAD))
    several = any(row.placement.gpus > 1 and row.placement.nodes == 1 for row in rows)
    if several and link.inside_rate and link.between_rate:
        alone = fit_law(model_rows(rows), shared, Noise())
        at = len(alone.measured.sizes) + NAMES.index("inside")
        known, apart = float(alone.covariance[at, at]) ** 0.5, log(link.inside_rate / link.between_rate)
        spread = hypot(link.spread, RATIO_SPREAD, known, FARTHER_RATES * abs(apart))
        yield Prior(alone["inside"] + apart, spread)


def _together(told: Sequence[Prior], least: float) -> Prior:
    """Two priors as one; both rest on the same link, so they know it no better together."""
    weights = [1 / one.deviation**2 for one in told]
    mean = sum(one.mean * weight for one, weight in zip(told, weights, strict=True)) / sum(weights)
    return Prior(mean, max(least, sum(weights) ** -0.5))


def _noise(laws: Iterable[Law], before: Noise) -> Noise:
    """The distance of rows from their laws, for rows with little exposed and for those with much."""
    little, much = [before.computing**2] * NOISE_ROWS, [before.exposed**2] * NOISE_ROWS
    for law in laws:
        measured = law.measured
        _, exposed = law.parts(measured.shape, measured.batches)
        steps = law.steps(measured.shape, measured.batches)
        seen = np.where(measured.shape.gpus == 1, measured.computing, measured.steps)
        off, share = np.log(seen / steps), exposed / steps
        freedom = len(off) / max(1.0, len(off) - len(measured.sizes) - 4)
        kept = np.abs(off) < 0.5
        little += list(freedom * off[kept & (share < LITTLE_EXPOSED)] ** 2)
        much += list(freedom * (off / np.maximum(share, 1e-9))[kept & (share > MUCH_EXPOSED)] ** 2)
    return Noise(float(np.sqrt(np.mean(little))), float(np.sqrt(np.mean(much))))


def _checked(fit: ClusterFit, rows: Sequence[MeasuredPlacement], link: LinkPriors | None) -> ClusterFit:
    """The fit with intervals as wide as the errors for held-back placements ask for."""
    errors: list[float] = []
    for model, law in fit.laws.items():
        own = [row for row in rows if row.model == model]
        priors = _own_priors(own, link, PRIORS | _shared(fit.laws.values()))
        for held in _folds(own):
            kept = [row for row in own if row.placement not in held]
            without = fit_law(model_rows(kept), priors, fit.noise, law, FEW_ROUNDS)
            asked = [row for row in own if row.placement in held and row.local_batch in without.measured.sizes]
            shape, batches = shape_of([row.placement for row in asked]), np.array([row.local_batch for row in asked])
            if asked:
                off = np.log(np.array([row.step_seconds for row in asked]) / without.steps(shape, batches))
                errors += list(np.abs(off) / fit._deviations(without, shape, batches))
    if len(errors) < LEAST_CHECKED:
        return replace(fit, widened=UNCHECKED, held_back=len(errors))
    needed = float(np.quantile(errors, LEVEL)) / QUANTILE
    inside = float(np.mean(np.array(errors) <= QUANTILE))
    return replace(fit, widened=min(MOST_WIDENED, max(1.0, needed)), held_back=len(errors), inside_share=inside)


def _folds(rows: Sequence[MeasuredPlacement]) -> list[set[Placement]]:
    """Placements to hold back: each of several once, and all with more than half of the most GPUs together."""
    several = sorted(
        {row.placement for row in rows if row.placement.gpus > 1}, key=lambda one: (one.gpus, one.per_node)
    )
    if len(several) < 2:
        return []
    most = max(one.gpus for one in several)
    folds = [set(several[first::FOLDS]) for first in range(min(FOLDS, len(several)))]
    folds.append({one for one in several if 2 * one.gpus > most})
    across = {one for one in several if one.nodes > 1}
    return [fold for fold in folds if 0 < len(fold) < len(several) and (not across or across - fold)]


def _slopes(law: Law, shape: Shape, batches: Floats) -> Floats:
    """The change of the logarithm of each step with each value of the law."""
    now = np.log(law.steps(shape, batches))
    found = np.empty((len(batches), len(law.values)))
    for one in range(len(law.values)):
        moved = law.values.copy()
        moved[one] += SHIFT
        found[:, one] = (np.log(replace(law, values=moved).steps(shape, batches)) - now) / SHIFT
    return found


def _beyond(law: Law, shape: Shape, batches: Floats) -> Floats:
    """Standard deviations that no row can tell: slower growth, company and batches beyond what was measured."""
    now = np.log(law.steps(shape, batches))
    more = np.log(replace(law, slowed=law.slowed + SLOWED_GROWTH.deviation).steps(shape, batches)) - now
    computing, exposed = law.parts(shape, batches)
    doublings = np.log2(np.maximum(shape.gpus / law.measured.most_gpus, 1))
    company = COMPANY_BEYOND * doublings * computing / (computing + exposed)
    sizes = law.measured.sizes
    outside = np.maximum(np.log2(batches / sizes[-1]), np.log2(sizes[0] / batches))
    return np.column_stack([more, company, FARTHEST_BATCH * np.maximum(outside, 0)])


def _anchor(law: Law) -> Placement:
    shape = law.measured.shape
    order = np.lexsort((shape.nodes, shape.gpus))
    largest = int(order[-1])
    return even_placement(int(shape.nodes[largest]), int(shape.gpus[largest]))


def _around(value: float, reach: float) -> Estimate:
    low, high = value * float(np.exp(-reach)), value * float(np.exp(reach))
    return Estimate(value, low, high, 0, 0, "law of the cluster, from few placements", LEVEL, positive=True)
