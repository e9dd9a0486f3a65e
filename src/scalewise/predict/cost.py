"""The cost of a training: hours, GPU-hours and, if a price is given, money."""

from dataclasses import dataclass
from math import ceil

from scalewise.analysis.estimate import Estimate
from scalewise.predict.answer import AtRanks, RehearsalAnswer

HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class Training:
    """A planned training in steps or samples, and the price of a GPU-hour in any currency."""

    steps: int | None = None
    samples: float | None = None
    price_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class CostRow:
    """The cost with one number of ranks."""

    ranks: int
    steps: int
    samples: float | None
    hours: Estimate
    gpu_hours: Estimate
    cost: Estimate | None


def cost_rows(answer: RehearsalAnswer, training: Training) -> tuple[CostRow, ...]:
    """The cost for every number of ranks for which the steps are known; times between steps count as rehearsed."""
    rows = [_row(at, training) for at in answer.at]
    return tuple(row for row in rows if row is not None)


def _row(at: AtRanks, training: Training) -> CostRow | None:
    per_step = at.predicted.samples
    if training.steps is not None:
        steps = training.steps
    elif training.samples is not None and per_step:
        steps = ceil(training.samples / per_step)
    else:
        return None
    between = at.rehearsal.between_seconds
    hours = _each(at.predicted.step, between, steps / HOUR_SECONDS)
    gpu_hours = _each(at.predicted.step, between, steps * at.ranks / HOUR_SECONDS)
    price = training.price_per_gpu_hour
    return CostRow(
        ranks=at.ranks,
        steps=steps,
        samples=per_step * steps if per_step else None,
        hours=hours,
        gpu_hours=gpu_hours,
        cost=None if price is None else _each(gpu_hours, 0.0, price),
    )


def _each(step: Estimate, plus: float, times: float) -> Estimate:
    return step.through(lambda one: (one + plus) * times, positive=True)
