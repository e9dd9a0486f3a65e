"""What is here, and what was measured between its ranks."""

from scalewise.cli.link_probe import probe_link, usual_seating
from scalewise.cli.measure import Here
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.predict.probe import LinkProbe, kept_probes
from scalewise.records.machine import MachineFacts


def look(measure: bool, output: Output) -> tuple[MachineFacts, tuple[LinkProbe, ...]]:
    """The machine, and its links: those measured before, and with `measure` one that is measured now."""
    with Servers() as servers:
        facts = machine_facts(servers)
        if measure:
            _measure(Here(servers, facts), output)
    return facts, kept_probes(facts)


def _measure(here: Here, output: Output) -> None:
    seats = usual_seating(here.facts)
    if not seats.counts:
        raise BadRequest(
            f"There is no link to measure: only one rank fits here ({'one GPU' if here.facts.gpus else 'one core'}).",
            "Name the link that you mean to rehearse over: scalewise rehearse SCRIPT --link nvlink4",
        )
    output.say("measuring the link, for 10 s at most")
    probe = probe_link(here, seats)
    if not probe.points:
        raise BadRequest(
            f"The link could not be measured: {'; '.join(probe.troubles)}.", "Try again on an idle machine."
        )
