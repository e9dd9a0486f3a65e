"""Counts how often DDP reduces gradients per update, and how many bytes that sends."""

import statistics
from dataclasses import dataclass, replace

from scalewise.analysis.estimate import level_text
from scalewise.doctor.accumulation import MOSTLY, Accumulation, Update, accumulation_of, of_kind
from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Finding, Price
from scalewise.doctor.replay import Replayed
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import NoSyncNote
from scalewise.units import bytes_text


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
    spared = over.reductions.size_bytes * (over.syncs - 1) / over.syncs
    how = f"computed: {over.syncs - 1} of {over.syncs} reductions of what DDP's buckets hold"
    return Price(spared, "bytes", "all-reduced per step and rank for nothing", how)


def settle_by_time(finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding in milliseconds if a replay measured it; a step that got no shorter keeps its bytes."""
    if replayed.trouble or not replayed.applied or replayed.spared is None:
        return finding
    spared = replayed.spared
    less, step = spared.milliseconds, spared.step_milliseconds
    text = f"with the fix a step takes {step - less.value:.2f} ms, not {step:.2f} ms "
    text += f"(spared: {less.low:.2f} to {less.high:.2f} ms, {level_text(less.level)})"
    after = reductions_of(replayed.mended.first)
    evidence = (*finding.evidence, text, *((f"with the fix: {after}",) if after else ()))
    if less.low <= 0:
        return replace(finding, evidence=evidence, proof="replayed")
    price = Price(less.value, "ms per step", "communication that no_sync() spares", spared.how, less)
    return replace(finding, evidence=evidence, proof="replayed", price=price)
