"""Measures the link between the ranks of this machine in at most ten seconds: messages, and computing beside them."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scalewise.analysis.fits import ALL_REDUCE, link_points
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter, SilentListener
from scalewise.launch.campaign import run_campaign
from scalewise.launch.interrupts import Interrupts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.plan.seating import Seating
from scalewise.predict.link import Link
from scalewise.predict.measured_link import measured_link
from scalewise.predict.probe import LinkProbe, Overlap, keep_probe, kept_probe, overlaps_of, place_of
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.spec import RunSpec

MOST_SECONDS = 10.0
LEAST_SECONDS = 2.0  # time left below which no further run is started
FRESH_SECONDS = 3600.0  # a link measured within the hour is not measured again
SIZES = tuple(4 * 4**power for power in (0, 4, 6, 7, 8, 9, 10, 11, 12))  # 4 B, 1 KiB, 16 KiB to 64 MiB
REPEATS = 20  # many, because some messages wait for a time slice of the scheduler and others do not
FURTHER_KINDS = ("all_gather", "reduce_scatter")  # collectives that gloo implements quite differently from NCCL
FURTHER_SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24)
FURTHER_REPEATS = 10
OVERLAP_SIZES = (1 << 22, 1 << 25)  # a bucket that others follow, and one long enough to time computing beside it
OVERLAP_REPEATS = 6


def known_link(here: Here, seats: Seating, reporter: Reporter) -> LinkProbe:
    """Returns the link measured within the last hour among all these numbers of ranks, or measures it now."""
    kept = kept_probe(place_of(here.facts, seats.device, seats.cores_per_rank))
    if kept is not None and _serves(kept, seats):
        return kept
    reporter.say(f"measuring the link, for {MOST_SECONDS:.0f} s at most")
    return probe_link(here, seats)


def _serves(kept: LinkProbe, seats: Seating) -> bool:
    """Tells whether a kept measurement is recent, complete, and not spoiled by a busy machine."""
    fresh = time.time() - kept.made_unix_seconds < FRESH_SECONDS
    good = all(isinstance(measured_link(kept, count), Link) for count in seats.counts)
    return (
        fresh
        and good
        and set(seats.counts) <= set(kept.rank_counts)
        and (bool(kept.overlaps) or seats.device == "cuda")
    )


def probe_link(here: Here, seats: Seating) -> LinkProbe:
    """Measures the link, and keeps the result for later if any message was measured."""
    began = time.monotonic()
    points: list[MeasuredCollective] = []
    overlaps: list[Overlap] = []
    troubles: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scalewise-link-") as folder:
        for spec in _specs(here, seats):
            left = MOST_SECONDS - (time.monotonic() - began)
            if left < LEAST_SECONDS:
                troubles.append(f"no time was left for {_what(spec)}")
                continue
            run = _made(replace(spec, limit_seconds=left), SuiteFolder(Path(folder)), here)
            if not run.measured:
                troubles.append(f"{_what(spec)}: {run.outcome.sentence if run.outcome else 'not made'}")
            elif spec.experiment == "interference":
                overlaps += overlaps_of(run, OVERLAP_SIZES)
            else:
                points += collectives_of(run)
    place = place_of(here.facts, seats.device, seats.cores_per_rank)
    took = time.monotonic() - began
    probe = LinkProbe(place, time.time(), took, tuple(points), tuple(overlaps), tuple(troubles))
    if points:
        keep_probe(probe)
    return probe


def collectives_of(run: Run) -> list[MeasuredCollective]:
    """The times of all messages in a run of `subjects/allreduce.py`."""
    found = link_points(run, (ALL_REDUCE, *FURTHER_KINDS))
    return [MeasuredCollective(one.ranks, one.bytes, one.seconds, one.kind) for one in found]


def _specs(here: Here, seats: Seating) -> list[RunSpec]:
    """Returns the runs, all those with the fewest ranks first: there may be no time left for the last ones."""
    link = _expanded(here, seats, "allreduce.py", ["--hot", *_words(SIZES, REPEATS)])
    further = ["--hot", "--kinds", ",".join(FURTHER_KINDS), *_words(FURTHER_SIZES, FURTHER_REPEATS)]
    others = [replace(spec, name=f"{spec.name}-others") for spec in _expanded(here, seats, "allreduce.py", further)]
    if seats.device == "cuda" or not link:
        return [*link, *others]
    beside = _expanded(here, seats, "interference.py", _words(OVERLAP_SIZES, OVERLAP_REPEATS))
    return [link[0], others[0], beside[0], *link[1:], *others[1:]]


def _words(sizes: Sequence[int], repeats: int) -> list[str]:
    return ["--sizes", ",".join(map(str, sizes)), "--repeats", str(repeats)]


def _expanded(here: Here, seats: Seating, subject: str, args: Sequence[str]) -> list[RunSpec]:
    if not seats.counts:
        return []
    suite = script_suite(subject_folder() / subject, args, ranks=seats.counts, device=seats.device)
    return list(expand(suite, here.facts, Path.cwd()).runs)


def _made(spec: RunSpec, folder: SuiteFolder, here: Here) -> Run:
    interrupts = Interrupts()
    run_campaign([spec], folder, here.facts, SilentListener(), here.servers, interrupts)
    if interrupts.asked:
        raise KeyboardInterrupt
    return load(folder.run(spec.name).path).runs[0]


def _what(spec: RunSpec) -> str:
    task = "computing beside messages" if spec.experiment == "interference" else "messages"
    return f"{task} among {spec.ranks} ranks"
