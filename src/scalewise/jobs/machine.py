"""Describes this machine: its devices, how fast they are, and what was measured between its ranks."""

from dataclasses import replace
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.link_probe import probe_link
from scalewise.jobs.measure import Here
from scalewise.jobs.peak_probe import with_peaks
from scalewise.jobs.reporter import Reporter
from scalewise.launch.forkserver import Servers
from scalewise.launch.peak_rates import all_kept_peaks
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.plan.seating import usual_seating
from scalewise.predict.probe import LinkProbe, kept_probes
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Inspected


def look(measure: bool, reporter: Reporter) -> tuple[MachineFacts, tuple[LinkProbe, ...]]:
    """The machine, its peak rates and links: those measured before, and with `measure` also those measured now."""
    with Servers() as servers:
        facts = machine_facts(servers)
        if measure:
            here = Here(servers, facts)
            _measure_peaks(here, reporter)
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
    reporter.say("measuring the link, for 10 s at most")
    probe = probe_link(here, seats)
    if not probe.points:
        raise BadRequest(
            f"The link could not be measured: {'; '.join(probe.troubles)}.", "Try again on an idle machine."
        )
