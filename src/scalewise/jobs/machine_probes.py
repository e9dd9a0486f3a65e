"""Describes this machine: its devices, how fast they are, and the link between its ranks, in ten seconds at most."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scalewise.analysis.fits import ALL_REDUCE, link_points
from scalewise.errors import BadRequest
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter, SilentListener
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.peak_rates import all_kept_peaks, keep_peaks, kept_peaks, same_seat, seat_of
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.plan.seating import Seating, usual_seating
from scalewise.predict.link import Link
from scalewise.predict.measured_link import measured_link
from scalewise.predict.probe import LinkProbe, Overlap, keep_probe, kept_probe, kept_probes, overlaps_of, place_of
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts, PeakRates
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Inspected, RunSpec
from scalewise.units import counted

PEAKS_FRESH_SECONDS = 86_400.0  # a day: peak rates of a device hardly change
PEAKS_LIMIT_SECONDS = 60.0


def with_peaks(here: Here, specs: Sequence[RunSpec], reporter: Reporter, anew: bool = False) -> Here:
    """Returns the machine with the peak rates of every seat that these runs give to inspected ranks."""
    seats: list[tuple[PeakRates, RunSpec]] = []
    for spec in specs:
        seat = seat_of(here.facts, spec)
        if spec.inspected and not any(same_seat(seat, known) for known, _ in seats):
            seats.append((seat, spec))
    found = []
    for seat, spec in seats:
        kept = kept_peaks(seat)
        if kept is None or anew or time.time() - kept.made_unix_seconds > PEAKS_FRESH_SECONDS:
            reporter.say(f"measuring how fast {_seat_text(seat)} is")
            kept = _measured(here, seat, spec, reporter) or kept
        if kept is not None:
            found.append(kept)
    return replace(here, facts=replace(here.facts, peaks=tuple(found)))


def _measured(here: Here, seat: PeakRates, spec: RunSpec, reporter: Reporter) -> PeakRates | None:
    """Measures the peak rates with one process on the cores or GPU of a rank of the run; None if that fails."""
    suite = script_suite(subject_folder() / "peaks.py", ["--device", spec.device], mode="python", device=spec.device)
    (probe,) = expand(suite, here.facts, Path.cwd(), python=spec.python).runs
    probe = replace(
        probe, shares=spec.shares[:1], threads_per_rank=spec.threads_per_rank, limit_seconds=PEAKS_LIMIT_SECONDS
    )
    with tempfile.TemporaryDirectory(prefix="scalewise-peaks-") as path:
        folder, interrupts = SuiteFolder(Path(path)), Interrupts()
        outcomes = run_campaign([probe], folder, here.facts, SilentListener(), here.servers, interrupts)
        if interrupts.asked:
            raise KeyboardInterrupt
        try:
            said = json.loads(folder.run(probe.name).stdout(0).read_text(encoding="utf-8"))
            rates = {str(name): float(rate) for name, rate in said["flops_per_second"].items()}
            measured = replace(
                seat,
                made_unix_seconds=time.time(),
                flops_per_second=rates,
                copy_bytes_per_second=float(said["copy_bytes_per_second"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            reporter.say(f"the peak could not be measured: {_why(outcomes)}", tone="warning")
            return None
    return keep_peaks(measured)


def _why(outcomes: Sequence[Outcome | None]) -> str:
    ended = next(iter(outcomes), None)
    return ended.sentence if ended is not None else "it was not started"


def _seat_text(seat: PeakRates) -> str:
    if seat.device == "cuda":
        return seat.name or "the GPU"
    cores = counted(seat.cores, "core") if seat.cores else "its cores"
    return f"a rank on {cores}"


MOST_SECONDS = 10.0  # for the first number of ranks
FURTHER_SECONDS = 9.0  # for each further one
LEAST_SECONDS = 2.0  # time left below which no further run is started
ENOUGH_SECONDS = (2.5, 1.0, 2.5)  # of messages, of further kinds and beside computing; after that no round begins
LINK_FRESH_SECONDS = 3600.0  # a link measured within the hour is not measured again
SIZES = tuple(4 * 4**power for power in (0, 4, 6, 7, 8, 9, 10, 11, 12))  # 4 B, 1 KiB, 16 KiB to 64 MiB
REPEATS = 40  # at most; many, because some messages wait for a time slice of the scheduler and others do not
FURTHER_KINDS = ("all_gather", "reduce_scatter")  # collectives that gloo implements quite differently from NCCL
FURTHER_SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24)
FURTHER_REPEATS = 10
OVERLAP_SIZES = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)  # buckets; the largest lasts enough to compute beside it
OVERLAP_REPEATS = 12


def known_link(here: Here, seats: Seating, reporter: Reporter) -> LinkProbe:
    """Returns the link measured within the last hour among all these numbers of ranks, or measures it now."""
    kept = kept_probe(place_of(here.facts, seats.device, seats.cores_per_rank))
    if kept is not None and _serves(kept, seats):
        return kept
    reporter.say(f"measuring the link, for {most_seconds(seats):.0f} s at most")
    return probe_link(here, seats)


def most_seconds(seats: Seating) -> float:
    """The time that measuring the link among all these numbers of ranks may take."""
    return MOST_SECONDS + FURTHER_SECONDS * max(0, len(seats.counts) - 1)


def _serves(kept: LinkProbe, seats: Seating) -> bool:
    """Tells whether a kept measurement is recent, complete, and not spoiled by a busy machine."""
    fresh = time.time() - kept.made_unix_seconds < LINK_FRESH_SECONDS
    good = all(isinstance(measured_link(kept, count), Link) for count in seats.counts)
    beside = {one.ranks for one in kept.overlaps}
    overlapped = seats.device == "cuda" or set(seats.counts) <= beside
    return fresh and good and set(seats.counts) <= set(kept.rank_counts) and overlapped


def probe_link(here: Here, seats: Seating, keep_runs: Path | None = None) -> LinkProbe:
    """Measures the link, and keeps the result for later if any message was measured; its runs only where asked.

    The time limit counts messages, not the start of processes: on a machine that has just started that took 9 s, and
    no time was left for all-gathers.
    """
    began = time.monotonic()
    points: list[MeasuredCollective] = []
    overlaps: list[Overlap] = []
    troubles: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scalewise-link-") as folder:
        for spec in _specs(here, seats):
            left = most_seconds(seats) - (time.monotonic() - began)
            if left < LEAST_SECONDS:
                troubles.append(f"no time was left for {_task_text(spec)}")
                continue
            run = _made(replace(spec, limit_seconds=left), SuiteFolder(keep_runs or Path(folder)), here)
            began += (
                run.outcome.launch_seconds if run.outcome else 0.0
            )  # the first may start a server for all that follow
            if not run.measured:
                troubles.append(f"{_task_text(spec)}: {run.outcome.sentence if run.outcome else 'not made'}")
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
    """Returns the runs, the fewest ranks first, further kinds last: there may be no time left for the last ones."""
    messages, kinds, both = ENOUGH_SECONDS
    link = _expanded(here, seats, "allreduce.py", ["--hot", *_words(SIZES, REPEATS, messages)])
    further = ["--hot", "--kinds", ",".join(FURTHER_KINDS), *_words(FURTHER_SIZES, FURTHER_REPEATS, kinds)]
    others = [replace(spec, name=f"{spec.name}-others") for spec in _expanded(here, seats, "allreduce.py", further)]
    if seats.device == "cuda" or not link:
        return [*link, *others]
    beside = _expanded(here, seats, "interference.py", _words(OVERLAP_SIZES, OVERLAP_REPEATS, both))
    return [*(run for of_ranks in zip(link, beside, strict=True) for run in of_ranks), *others]


def _words(sizes: Sequence[int], repeats: int, seconds: float) -> list[str]:
    return ["--sizes", ",".join(map(str, sizes)), "--repeats", str(repeats), "--seconds", f"{seconds:g}"]


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


def _task_text(spec: RunSpec) -> str:
    task = "computing beside messages" if spec.experiment == "interference" else "messages"
    return f"{task} among {spec.ranks} ranks"


def look(measure: bool, reporter: Reporter, link: bool = True) -> tuple[MachineFacts, tuple[LinkProbe, ...]]:
    """The machine, its peak rates and links: those measured before, and with `measure` also those measured now.

    Without `link` only peak rates are measured now.
    """
    with Servers() as servers:
        facts = machine_facts(servers)
        if measure:
            here = Here(servers, facts)
            _measure_peaks(here, reporter)
            if link:
                _measure_link(here, reporter)
    return replace(facts, peaks=all_kept_peaks(facts)), kept_probes(facts)


def _measure_peaks(here: Here, reporter: Reporter) -> None:
    """Measures the peak rates of one rank that has the machine to itself."""
    alone = script_suite(subject_folder() / "peaks.py", mode="python")
    runs = expand(alone, here.facts, Path.cwd()).runs
    with_peaks(here, [replace(run, kind=Inspected()) for run in runs], reporter, anew=True)


def _measure_link(here: Here, reporter: Reporter) -> None:
    seats = usual_seating(here.facts)
    if not seats.counts:
        only = "one GPU" if here.facts.gpus else "one core"
        reporter.say(f"there is no link to measure: only one rank fits here ({only})")
        return
    reporter.say(f"measuring the link, for {most_seconds(seats):.0f} s at most")
    probe = probe_link(here, seats)
    if not probe.points:
        raise BadRequest(
            f"The link could not be measured: {'; '.join(probe.troubles)}.", "Try again on an idle machine."
        )
