"""Measures the peak rates of the devices that ranks will sit on: matrix products in each precision, and copies."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter, SilentListener
from scalewise.launch.campaign import run_campaign
from scalewise.launch.interrupts import Interrupts
from scalewise.launch.peak_rates import keep_peaks, kept_peaks, same_seat, seat_of
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.records.folder import SuiteFolder
from scalewise.records.machine import PeakRates
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec

FRESH_SECONDS = 86_400.0  # a day: peak rates of a device hardly change
LIMIT_SECONDS = 60.0


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
        if kept is None or anew or time.time() - kept.made_unix_seconds > FRESH_SECONDS:
            reporter.say(f"measuring how fast {_what(seat)} is")
            kept = _measured(here, seat, spec, reporter) or kept
        if kept is not None:
            found.append(kept)
    return replace(here, facts=replace(here.facts, peaks=tuple(found)))


def _measured(here: Here, seat: PeakRates, spec: RunSpec, reporter: Reporter) -> PeakRates | None:
    """Measures the peak rates with one process on the cores or GPU of a rank of the run; None if that fails."""
    suite = script_suite(subject_folder() / "peaks.py", ["--device", spec.device], mode="python", device=spec.device)
    (probe,) = expand(suite, here.facts, Path.cwd(), python=spec.python).runs
    probe = replace(probe, shares=spec.shares[:1], threads_per_rank=spec.threads_per_rank, limit_seconds=LIMIT_SECONDS)
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


def _what(seat: PeakRates) -> str:
    if seat.device == "cuda":
        return seat.name or "the GPU"
    cores = f"{seat.cores} core{'' if seat.cores == 1 else 's'}" if seat.cores else "its cores"
    return f"a rank on {cores}"
