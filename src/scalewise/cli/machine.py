"""What is here, how fast it is, and what was measured between its ranks."""

from dataclasses import replace
from pathlib import Path

from scalewise.cli.link_probe import probe_link, usual_seating
from scalewise.cli.measure import Here
from scalewise.cli.peak_probe import with_peaks
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.launch.peaks import all_kept_peaks
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.predict.probe import LinkProbe, kept_probes
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Inspected


def look(measure: bool, output: Output) -> tuple[MachineFacts, tuple[LinkProbe, ...]]:
    """The machine, its peak rates and links: those measured before, and with `measure` also those measured now."""
    with Servers() as servers:
        facts = machine_facts(servers)
        if measure:
            here = Here(servers, facts)
            _measure_peaks(here, output)
            _measure_link(here, output)
    return replace(facts, peaks=all_kept_peaks(facts)), kept_probes(facts)


def _measure_peaks(here: Here, output: Output) -> None:
    """Of one rank that has the machine to itself."""
    alone = script_suite(subject_folder() / "peaks.py", mode="python")
    runs = expand(alone, here.facts, Path.cwd()).runs
    with_peaks(here, [replace(run, kind=Inspected()) for run in runs], output, anew=True)


def _measure_link(here: Here, output: Output) -> None:
    seats = usual_seating(here.facts)
    if not seats.counts:
        only = "one GPU" if here.facts.gpus else "one core"
        output.say(f"there is no link to measure: only one rank fits here ({only})")
        return
    output.say("measuring the link, for 10 s at most")
    probe = probe_link(here, seats)
    if not probe.points:
        raise BadRequest(
            f"The link could not be measured: {'; '.join(probe.troubles)}.", "Try again on an idle machine."
        )
