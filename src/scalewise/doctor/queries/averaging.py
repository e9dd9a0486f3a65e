"""Averaging over ranks: DDP's reductions per update, averaging by the script itself, and ranks' parameters compared."""

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from scalewise.analysis.estimate import level_text
from scalewise.doctor.case import Abstain, Case, RankCase, Window
from scalewise.doctor.finding import Finding, Price, Replayed
from scalewise.doctor.queries.accumulation import MOSTLY, Accumulation, Update, accumulation_of, of_kind
from scalewise.records.collectives import collective_kind
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import CollectiveNote, ExhaustedNote, NoSyncNote, StepNote
from scalewise.units import bytes_text

SMALL_SHARE = 0.05  # share of the parameters' bytes: losses and counts are far below it, compressed gradients above
LARGE_SHARE = 0.5  # share of the parameters' bytes in models that are averaged: in half precision, half of the bytes


def sent_bytes(collectives: Sequence[CollectiveNote]) -> int:
    """Returns the bytes that one rank sends in collectives that can make the ranks agree."""
    return sum(note.size_bytes for note in collectives if collective_kind(note.operation).unites)


def reduces_by_hand(window: Window, parameter_bytes: int) -> bool:
    """Returns True if enough is sent in this window to hold its gradients, possibly compressed."""
    return sent_bytes(window.collectives) >= max(1, SMALL_SHARE * parameter_bytes)


def averages_by_hand(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Returns True if some window sends at least half as many bytes as the parameters have."""
    return any(sent_bytes(window.collectives) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows)


def averages_models(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Returns True if whole models are sent between a step and the next forward pass.

    Such ranks differ in between on purpose. What is sent before the first forward pass only makes them equal once.
    """
    return any(sent_bytes(_before_forward(window)) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows[1:])


def _before_forward(window: Window) -> list[CollectiveNote]:
    until = window.notes.index(window.forwards[0]) if window.forwards else len(window.notes)
    return [note for note in window.notes[:until] if isinstance(note, CollectiveNote)]


@dataclass(frozen=True)
class Reductions:
    """The median of what one rank all-reduces per optimizer step."""

    count: float
    size_bytes: float

    def __str__(self) -> str:
        calls = "1 all-reduce" if self.count == 1 else f"{self.count:g} all-reduces"
        return f"{calls}, {bytes_text(self.size_bytes)} per optimizer step"


@dataclass(frozen=True)
class Oversync:
    """A script that reduces gradients in several micro-batches of a window."""

    found: Accumulation
    wrapper: WrapperRow
    windows: tuple[Update, ...]  # the windows in which it does so
    entered: int  # number of those windows with no_sync() entered
    syncs: int  # reductions per window, most common number
    reductions: Reductions | None


def ddp_of(case: Case) -> WrapperRow:
    """Returns the DDP wrapper that trains over several ranks; abstains if there is none."""
    shared = [row for row in case.ddp_models() if len(row.ranks) > 1]
    if not shared:
        raise Abstain("its DistributedDataParallel has one rank only: there is nothing to synchronise")
    return shared[0]


def oversynchronised(case: Case) -> Oversync | None:
    """Returns how the script reduces too often; None if it does not."""
    wrapper = ddp_of(case)
    found = accumulation_of(case.first)
    # Windows that are zeroed in between do not accumulate, and need a different fix.
    windows = tuple(update for update in found.windows if not any(one.thrown_away for one in update.micro_batches[1:]))
    guilty = tuple(update for update in windows if sum(one.syncs for one in update.micro_batches) > 1)
    if len(guilty) < max(1, MOSTLY * len(windows)) or len(windows) < MOSTLY * len(found.windows):
        return None
    entered = sum(bool(of_kind(update.notes, NoSyncNote)) for update in guilty)
    syncs = statistics.mode(sum(one.syncs for one in update.micro_batches) for update in guilty)
    return Oversync(found, wrapper, guilty, entered, syncs, reductions_of(case.first))


def reductions_of(rank: RankCase) -> Reductions | None:
    """Returns what the rank all-reduces per step; None if no step recorded it."""
    # DDP rebuilds its buckets after the first backward passes.
    seen = [row.collectives["all_reduce"] for row in rank.record.steps[1:] if "all_reduce" in row.collectives]
    if not seen:
        return None
    return Reductions(statistics.median(one[0] for one in seen), statistics.median(one[1] for one in seen))


def needless_bytes(over: Oversync) -> Price | None:
    """Returns the bytes that are sent for nothing, as a price; a replay is needed for a price in time."""
    if over.reductions is None:
        return None
    saved = over.reductions.size_bytes * (over.syncs - 1) / over.syncs
    how = f"computed: {over.syncs - 1} of {over.syncs} reductions of what DDP's buckets hold"
    return Price(saved, "bytes", "all-reduced per step and rank for nothing", how)


def settle_by_time(finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding in milliseconds if a replay measured it; a step that got no shorter keeps its bytes."""
    if replayed.trouble or not replayed.applied or replayed.saved is None:
        return finding
    saved = replayed.saved
    less, step = saved.milliseconds, saved.step_milliseconds
    text = f"with the fix a step takes {step - less.value:.2f} ms, not {step:.2f} ms "
    text += f"(saved: {less.low:.2f} to {less.high:.2f} ms, {level_text(less.level)})"
    after = reductions_of(replayed.fixed.first)
    evidence = (*finding.evidence, text, *((f"with the fix: {after}",) if after else ()))
    if less.low <= 0:
        return replace(finding, evidence=evidence, proof="replayed")
    price = Price(less.value, "ms per step", "communication that no_sync() saves", saved.how, less)
    return replace(finding, evidence=evidence, proof="replayed", price=price)


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
