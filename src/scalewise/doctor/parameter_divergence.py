"""Tells whether ranks hold the same parameters, from the sums that each of them noted by itself."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from scalewise.doctor.case import Case, RankCase
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import ExhaustedNote, StepNote

# Equal tensors have sums that are equal to the last bit. Sums are in double precision, parameters rarely are.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class ParameterComparison:
    """The parameters of two or more ranks after one step."""

    step: int
    ranks: tuple[int, ...]
    tensors: int  # number of tensors compared
    gaps: dict[str, float]  # tensors that differ -> by how much, relative to their norm


def comparisons(case: Case, wrapper: WrapperRow) -> tuple[ParameterComparison, ...]:
    """Compares parameters after every step for which at least two ranks of the wrapper's group noted them."""
    return comparisons_of(case, wrapper.index, wrapper.ranks)


def comparisons_of(case: Case, wrapper: int, ranks: Collection[int]) -> tuple[ParameterComparison, ...]:
    """Compares the parameters of a wrapper between ranks, or those of the optimizers for wrapper NOWHERE."""
    until = _in_step_until(case)
    noted: dict[int, dict[int, dict[str, tuple[float, float]]]] = {}
    for rank in case.ranks:
        if rank.rank in ranks:
            for row in rank.sums:
                if row.wrapper == wrapper and row.step <= until:
                    noted.setdefault(row.step, {})[rank.rank] = row.sums
    return tuple(_compare(step, noted[step]) for step in sorted(noted) if len(noted[step]) > 1)


def _in_step_until(case: Case) -> float:
    """Returns the last step with the same number on all ranks: with uneven data (DDP.join) their counts drift apart."""
    if len({len(rank.windows) for rank in case.ranks}) == 1:
        return math.inf
    return min((_steps_before_data_ended(rank) for rank in case.ranks), default=math.inf)


def _steps_before_data_ended(rank: RankCase) -> float:
    steps = 0
    for note in rank.notes:
        if isinstance(note, ExhaustedNote) and steps:
            return steps
        steps += isinstance(note, StepNote)
    return math.inf


def _compare(step: int, by_rank: dict[int, dict[str, tuple[float, float]]]) -> ParameterComparison:
    shared = set.intersection(*(set(sums) for sums in by_rank.values()))
    gaps = {name: gap([sums[name] for sums in by_rank.values()]) for name in sorted(shared)}
    different = {name: value for name, value in gaps.items() if value > TOLERANCE}
    return ParameterComparison(step, tuple(sorted(by_rank)), len(shared), different)


def gap(values: list[tuple[float, float]]) -> float:
    """Returns the larger distance of sums or norms, relative to the largest norm; 0 if any value is not finite."""
    if not all(math.isfinite(number) for pair in values for number in pair):
        return 0.0
    size = max(norm for _, norm in values)
    if size == 0:
        return 0.0
    sums, norms = [pair[0] for pair in values], [pair[1] for pair in values]
    return max(max(sums) - min(sums), max(norms) - min(norms)) / size


def fed_differently(case: Case) -> bool:
    """Returns True if the ranks were seen to train on different data."""
    seen = [
        [note.digest for window in rank.windows for note in window.forwards if note.digest is not None]
        for rank in case.ranks
    ]
    return any(one != other for first in seen[:1] for rest in seen[1:] for one, other in zip(first, rest, strict=False))
