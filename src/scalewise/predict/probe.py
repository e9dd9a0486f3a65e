"""The measurements of this machine's link, with their time and place; kept in the user's cache."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from statistics import median

import numpy as np

from scalewise.analysis.estimate import run_median
from scalewise.analysis.fits import ALL_REDUCE
from scalewise.launch.this_machine import cache_folder
from scalewise.predict.timeline import Sharing
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.codec import read_json_or_none, write_json
from scalewise.records.load import Run
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Device
from scalewise.units import NANO

ALL_WORK = Sharing(work=1.0)
MOST_DISAGREEMENT = 0.2  # of shares of a message's time, as a median
MOST_WORK = 3.0  # beyond it, something else used the cores
# Of what two messages add to each other that are handed over at one moment; steps hand them over one after another.
# Five models with two to four buckets on 4 and 8 ranks: 0.43 to 0.82 of it for each further bucket, 0.59 in the mean.
STAGGERED = 0.6
KINDS = 5  # of steps in `subjects/interference.py`: nothing, computing, an all-reduce, both at once, two all-reduces


@dataclass(frozen=True)
class Place:
    """The setting in which a link is measured: the same place has the same link."""

    host: str
    cpu_model: str
    gpus: tuple[str, ...]
    device: Device
    cores_per_rank: int  # 0: not pinned
    torch: str

    @property
    def backend(self) -> str:
        """The library that carries messages here."""
        return "NCCL" if self.device == "cuda" else "gloo"


@dataclass(frozen=True)
class Overlap:
    """The times of computing and an all-reduce, each alone and both at once, and of two overlapping all-reduces."""

    ranks: int
    size_bytes: float
    compute_seconds: float
    message_seconds: float
    both_seconds: float
    two_seconds: float  # two all-reduces at once


@dataclass(frozen=True)
class LinkProbe:
    """One measurement of the link."""

    place: Place
    made_unix_seconds: float
    took_seconds: float
    points: tuple[MeasuredCollective, ...]
    overlaps: tuple[Overlap, ...] = ()
    troubles: tuple[str, ...] = ()  # what could not be measured, and why

    @property
    def rank_counts(self) -> tuple[int, ...]:
        """The numbers of ranks that were measured, fewest first."""
        return tuple(sorted({point.ranks for point in self.points if point.kind == ALL_REDUCE}))


def place_of(facts: MachineFacts, device: Device, cores_per_rank: int) -> Place:
    """The properties of this machine that decide its link."""
    gpus = tuple(gpu.name for gpu in facts.gpus)
    return Place(facts.host, facts.cpu_model, gpus, device, cores_per_rank, facts.versions.get("torch", ""))


def keep_probe(probe: LinkProbe) -> None:
    """Keeps the measurement for later; if the cache cannot be written, nothing is kept."""
    path = _path(probe.place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, probe)
    except OSError:
        return


def kept_probe(place: Place) -> LinkProbe | None:
    """The last measurement at that place, or None."""
    probe = read_json_or_none(_path(place), LinkProbe)
    return probe if probe is not None and probe.place == place else None


def kept_probes(facts: MachineFacts) -> tuple[LinkProbe, ...]:
    """All kept measurements of this machine's links, newest first."""
    found = []
    for path in cache_folder().glob("link-*.json"):
        probe = read_json_or_none(path, LinkProbe)
        if probe is not None and probe.place == place_of(facts, probe.place.device, probe.place.cores_per_rank):
            found.append(probe)
    return tuple(sorted(found, key=lambda probe: -probe.made_unix_seconds))


def overlaps_of(run: Run, sizes: Sequence[int]) -> tuple[Overlap, ...]:
    """The overlaps from a run of `subjects/interference.py` over these sizes; the first round is a warm-up."""
    if not run.measured:
        return ()
    by_rank = [{row.step: row.step_ns for row in rank.steps} for rank in run.ranks]
    common = set.intersection(*(set(steps) for steps in by_rank))
    slowest = {step: max(steps[step] for steps in by_rank) * NANO for step in common}
    found = []
    for first in range(KINDS * len(sizes), max(common, default=0) + 1, KINDS):
        times = [slowest.get(first + kind) for kind in range(KINDS)]
        if None not in times:
            size = sizes[first // KINDS % len(sizes)]
            nothing, *others = (time for time in times if time is not None)
            found.append(Overlap(run.spec.ranks, size, *(max(0.0, time - nothing) for time in others)))
    return tuple(found)


def sharing_of(overlaps: Sequence[Overlap], cores_per_rank: int, ranks: int = 2) -> Sharing:
    """The sharing of cores during large messages, and what it adds to messages or saves them that two overlap.

    Of overlaps among several numbers of ranks those of the nearest count: more ranks also share memory and its caches.

    On one core two messages at once are as much work as in sequence: what they seem to save there is the chance that
    both wait for the same time slice of the scheduler. On several, they may wait for each other's slices.
    """
    nearest = min((one.ranks for one in overlaps), key=lambda count: abs(log(count / ranks)), default=ranks)
    overlaps = [one for one in overlaps if one.ranks == nearest]
    sizes = [one.size_bytes for one in overlaps]
    large = [one for one in overlaps if one.size_bytes == max(sizes)]
    longer = [one.two_seconds - 2 * one.message_seconds for one in overlaps]
    if not longer or cores_per_rank == 1:
        return _beside(large)
    usual = median(longer)
    beside = STAGGERED * usual if usual > 0 else usual
    return replace(_beside(large), beside_seconds=beside, beside_bytes=min(sizes) / 2)


def _beside(overlaps: Sequence[Overlap]) -> Sharing:
    """The sharing computed from how much longer both together take than computing alone, over the message's time.

    Above 1 it counts as far as it is sure. If the ratios do not agree with
    each other, all of a message's time is taken as work: so it was on idle machines, where copying is all there is.
    """
    ratios = [(one.both_seconds - one.compute_seconds) / one.message_seconds for one in overlaps if one.message_seconds]
    if not ratios:
        return ALL_WORK
    beyond = median(ratios)
    apart = median(abs(ratio - beyond) for ratio in ratios)
    if apart > MOST_DISAGREEMENT:
        return ALL_WORK
    if beyond <= 1:
        return Sharing(work=max(0.0, beyond))
    return Sharing(work=min(MOST_WORK, max(1.0, run_median(np.array(ratios)).low)))


def _path(place: Place) -> Path:
    return cache_folder() / f"link-{hashlib.sha256(repr(place).encode()).hexdigest()[:16]}.json"
