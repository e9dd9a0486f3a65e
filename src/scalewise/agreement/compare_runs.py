"""Compares two runs tensor by tensor, in units of the rounding that a third run shows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from scalewise.agreement.compared_run import ComparedRun, Sketch, Tensors, added, distance, inner

MOST_KINKS = 10.0  # of what all values near a kink together move a tensor by: other values may cross it in another run
MOST_ROUNDINGS = 50.0  # apart by more is another computation; what was seen: decision 0025
What = Literal["gradient", "parameter"]


@dataclass(frozen=True)
class TensorDistance:
    """The distance of one tensor in two runs."""

    name: str
    what: What
    rank: int | None  # of the second run; None: put together from parts
    apart: float
    unit: float  # one rounding
    norm: float  # of the reference

    @property
    def roundings(self) -> float:
        """The distance in roundings."""
        return self.apart / self.unit if self.unit else (math.inf if self.apart else 0.0)

    @property
    def relative(self) -> float:
        """The distance as a share of the reference's length."""
        return self.apart / self.norm if self.norm else (math.inf if self.apart else 0.0)


@dataclass(frozen=True)
class StepDistance:
    """One step of two runs beside each other."""

    step: int
    loss: float | None  # of the reference
    other_loss: float | None  # mean over the ranks
    norm: float  # of the reference's whole gradient
    other_norm: float
    tensors: tuple[TensorDistance, ...]  # gradients, then parameters after the step

    @property
    def worst(self) -> TensorDistance | None:
        """The tensor that is the most roundings apart."""
        return max(self.tensors, key=lambda one: one.roundings, default=None)

    def parted(self, what: What | None = None) -> tuple[TensorDistance, ...]:
        """The tensors that are further apart than rounding explains, furthest first."""
        found = [one for one in self.tensors if one.roundings > MOST_ROUNDINGS and what in (None, one.what)]
        return tuple(sorted(found, key=lambda one: -one.roundings))


@dataclass(frozen=True)
class RunsCompared:
    """Two runs step by step, until they part or one of them ends."""

    steps: tuple[StepDistance, ...]
    missing: tuple[str, ...] = ()  # tensors with a gradient in one run alone
    start: tuple[TensorDistance, ...] = ()  # parameters that differ before the first step

    @property
    def first_difference(self) -> StepDistance | None:
        """The first step in which a tensor is further apart than rounding explains; None if there is none."""
        return next((step for step in self.steps if step.parted()), None)


def parity_of(reference: ComparedRun, other: ComparedRun, rounding: ComparedRun | None) -> RunsCompared:
    """Compares a run with a reference; `rounding` is the reference computed in another order."""
    units = _Units(reference, rounding)
    count = min(reference.steps, other.steps, *([rounding.steps] if rounding else []))
    names = [set(run.names(0)) for run in (reference, other)]
    steps = []
    for step in range(count):
        steps.append(_step(reference, other, units, step))
        if steps[-1].parted() or _not_finite(reference, step):
            break
    start = [one for one in _distances("parameter", reference, other, units, 0, exact=True) if one.roundings > 1]
    return RunsCompared(tuple(steps), tuple(sorted(names[0] ^ names[1])), tuple(start))


def _step(reference: ComparedRun, other: ComparedRun, units: "_Units", step: int) -> StepDistance:
    gradients = tuple(_distances("gradient", reference, other, units, step))
    parameters = tuple(_distances("parameter", reference, other, units, step + 1))
    if _reduced_inside(reference, other, units, step, parameters):
        gradients = ()
    return StepDistance(
        step=step,
        loss=reference.loss(step),
        other_loss=other.loss(step),
        norm=_whole_norm(reference, step),
        other_norm=_whole_norm(other, step),
        tensors=(*gradients, *parameters),
    )


def _distances(
    what: What, reference: ComparedRun, other: ComparedRun, units: "_Units", step: int, exact: bool = False
) -> Iterator[TensorDistance]:
    here, there = _of(reference, what), _of(other, what)
    for (at, name), sketches in here.items():
        if at != step or (at, name) not in there:
            continue
        base = next(iter(sketches.values()))
        unit = base.eps * base.norm if exact else units.of(what, step, name)
        for rank, sketch in there[at, name].items():
            yield TensorDistance(name, what, None if sketch.part else rank, distance(base, sketch), unit, base.norm)


def _reduced_inside(
    reference: ComparedRun, other: ComparedRun, units: "_Units", step: int, after: tuple[TensorDistance, ...]
) -> bool:
    """Tells whether gradients are exchanged inside the optimizer's step: ranks differ before, and not after it."""
    if not after or any(one.roundings > MOST_ROUNDINGS for one in after):
        return False
    found = False
    for (at, name), sketches in other.gradients.items():
        base = next(iter(reference.gradients.get((at, name), {}).values()), None)
        if at == step and base is not None and len(sketches) > 1:
            limit = MOST_ROUNDINGS * units.of("gradient", step, name)
            ranks = list(sketches.values())
            found |= any(distance(ranks[0], one) > limit for one in ranks[1:])
            if distance(base, added(ranks, 1 / len(ranks))) > limit:
                return False
    return found


def _of(run: ComparedRun, what: What) -> Tensors:
    return run.gradients if what == "gradient" else run.parameters


def _whole_norm(run: ComparedRun, step: int) -> float:
    """The length of the whole gradient, on the first rank."""
    return math.sqrt(sum(next(iter(found.values())).squares for (at, _), found in run.gradients.items() if at == step))


def _not_finite(run: ComparedRun, step: int) -> bool:
    return any(one.non_finite for (at, _), found in run.gradients.items() if at == step for one in found.values())


class _Units:
    """The size of one rounding for each tensor: as the third run shows it, and never less than its type allows.

    A tensor that happened to be rounded alike in both runs gets the share that the tensors of its step have in common.
    """

    def __init__(self, reference: ComparedRun, rounding: ComparedRun | None) -> None:
        self._reference, self._rounding = reference, rounding
        self._common: dict[tuple[What, int], float] = {}

    def of(self, what: What, step: int, name: str) -> float:
        """The rounding of a tensor."""
        base = self._base(what, step, name)
        if base is None:
            return 0.0
        common = self._common.get((what, step))
        if common is None:
            common = self._common[what, step] = self._common_share(what, step)
        return max(self._seen(what, step, name), common * base.norm, base.eps * base.norm)

    def _base(self, what: What, step: int, name: str) -> Sketch | None:
        return next(iter(_of(self._reference, what).get((step, name), {}).values()), None)

    def _seen(self, what: What, step: int, name: str) -> float:
        base = self._base(what, step, name)
        if base is None or self._rounding is None:
            return 0.0
        kinks = _moved(base, self._rounding.kinks, what, step, name)
        return max(_moved(base, self._rounding, what, step, name), kinks * MOST_KINKS / MOST_ROUNDINGS)

    def _common_share(self, what: What, step: int) -> float:
        shares = []
        for at, name in _of(self._reference, what):
            base = self._base(what, step, name) if at == step else None
            if base is not None and base.norm:
                shares.append(self._seen(what, step, name) / base.norm)
        return median(shares) if shares else 0.0


def _moved(base: Sketch, run: ComparedRun | None, what: What, step: int, name: str) -> float:
    found = _of(run, what).get((step, name), {}) if run else {}
    again = next(iter(found.values()), None)
    return distance(base, again) if again is not None else 0.0


def factor_between(reference: ComparedRun, other: ComparedRun, step: int) -> tuple[float, float] | None:
    """The factor by which a gradient is longer than the reference's, and the share of it that no factor explains."""
    across, own, whole, pairs = 0.0, 0.0, 0.0, []
    for (at, name), sketches in reference.gradients.items():
        there = other.gradients.get((at, name))
        if at == step and there:
            base, found = next(iter(sketches.values())), next(iter(there.values()))
            across += inner(base, found)
            own += inner(base, base)
            whole += inner(found, found)
            pairs.append((base, found))
    if not own or not whole:
        return None
    factor = across / own
    left = sum(distance(base.times(factor), found) ** 2 for base, found in pairs)
    return factor, math.sqrt(left / whole)


def relative_rounding(reference: ComparedRun, rounding: ComparedRun) -> float:
    """The distance of the first gradient of two runs, as a share of its length."""
    apart = own = 0.0
    for (step, name), sketches in reference.gradients.items():
        there = rounding.gradients.get((step, name))
        if step == 0 and there:
            apart += distance(next(iter(sketches.values())), next(iter(there.values()))) ** 2
            own += next(iter(sketches.values())).squares
    return math.sqrt(apart / own) if own else 0.0


SAME_LOSS = 1e-5  # share by which two losses may differ that are the same sum


def sample_scale(reference: ComparedRun, other: ComparedRun) -> float | None:
    """The factor of a loss that is a sum divided by a number worked out from the ranks; None: no such loss.

    Given the samples of all, one rank divides the same sum by fewer: its loss and its gradient are that much larger
    than the ranks' losses added up and their gradient.
    """
    ranks = len(other.losses.get(0, {}))
    own, theirs = reference.loss(0), other.loss(0)
    found = factor_between(reference, other, 0)
    if own is None or theirs is None or ranks < 2 or not own or found is None or found[1] > SAME_LOSS:
        return None
    ratio = theirs * ranks / own
    known = abs(ratio * ranks - 1) < SAME_LOSS and abs(found[0] * ranks - 1) < SAME_LOSS
    return 1 / ranks if known else None


def loss_sentence(reference: ComparedRun, other: ComparedRun, rounding: ComparedRun, step: int) -> str:
    """Tells whether the losses of a step agree, and so in which part of the step a difference arises."""
    own, mean, again = (run.loss(step) for run in (reference, other, rounding))
    if own is None or mean is None or again is None:
        return ""
    unit = max(abs(own - again), 2.0**-23 * abs(own))
    ranks = len(other.losses.get(step, {}))
    if min(abs(mean - own), abs(mean * ranks - own)) <= MOST_ROUNDINGS * unit:
        return (
            f"The losses of step {step + 1} agree, so what differs comes after the forward pass: the gradient, its "
            "exchange, or what is done with it."
        )
    return f"The losses of step {step + 1} differ as well: the forward pass or the loss itself is another."
