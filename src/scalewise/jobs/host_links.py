"""Measures what lies between hosts of a job, beside what lies inside one, and writes both as a link for `rehearse`."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from scalewise.errors import BadRequest
from scalewise.jobs.machine_probes import REPEATS, SIZES, collectives_of, known_link
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter, SilentListener
from scalewise.launch.campaign import Interrupts, disk_trouble_explained, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.plan.seating import usual_seating
from scalewise.predict.link import Wire
from scalewise.predict.measured_link import fitted_wire
from scalewise.predict.wire_fit import MeasuredCollective, NoWireFit, WireFit, fit_wire
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load

LIMIT_SECONDS = 120.0  # of one run: a slow wire carries 64 MiB in some seconds


def measure_host_links(nodes: int, out: Path, reporter: Reporter) -> Path:
    """Measures all-reduces among 2 hosts and all of them, one rank each, and returns the link file; runs in a job."""
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        counts = tuple(dict.fromkeys((2, nodes)))
        reporter.say(f"measuring the link between hosts, among {' and '.join(map(str, counts))} of them")
        between = fit_wire(_between_hosts(here, counts, out))
        seats = usual_seating(here.facts)
        inside = fitted_wire(known_link(here, seats, reporter)) if seats.counts else None
    if isinstance(between, NoWireFit):
        raise BadRequest(f"The link between hosts could not be measured: {between.reason}.", "Try again on idle hosts.")
    path = out / f"link-{nodes}-hosts.toml"
    with disk_trouble_explained(out):
        path.write_text(link_text(inside if isinstance(inside, WireFit) else None, between, here.facts.host))
    return path


def link_text(inside: WireFit | None, between: WireFit, host: str) -> str:
    """A link file; where nothing was measured inside a host, because it has one rank, what is between them stands."""
    one = inside or between
    data: dict[str, object] = {
        "name": "measured between hosts",
        "source": f"all-reduces of one rank on each host, {time.strftime('%Y-%m-%d')}, from {host}",
        "spread": round(max(between.spread, one.spread), 4),
        "inside": _table(one.wire),
    }
    if inside is not None:
        data |= {"between": _table(between.wire)}
    note = "# Give --per-node: how many ranks a host has.\n" if inside is not None else ""
    return note + tomli_w.dumps(data)


def _between_hosts(here: Here, counts: Sequence[int], out: Path) -> list[MeasuredCollective]:
    words = ["--hot", "--sizes", ",".join(map(str, SIZES)), "--repeats", str(REPEATS)]
    place = out / f".slurm-link-{time.time_ns()}"  # all hosts see it
    points: list[MeasuredCollective] = []
    try:
        for count in counts:
            script = subject_folder() / "allreduce.py"
            one_each = {"ranks": (count,), "nodes": (count,), "limit_seconds": LIMIT_SECONDS}
            suite = script_suite(script, words, launcher="slurm", **one_each)  # type: ignore[arg-type]
            specs = expand(suite, here.facts, Path.cwd()).runs
            with Interrupts() as interrupts:
                run_campaign(specs, SuiteFolder(place), here.facts, SilentListener(), here.servers, interrupts)
                if interrupts.asked:
                    raise KeyboardInterrupt
            for spec in specs:
                (run,) = load(place / spec.name).runs
                if not run.measured:
                    raise BadRequest(
                        f"Messages among {count} hosts could not be measured: "
                        f"{run.outcome.sentence if run.outcome else 'not made'}.",
                        run.outcome.hint if run.outcome else "",
                    )
                points += collectives_of(run)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return points


def _table(wire: Wire) -> dict[str, float]:
    return {
        "start_us": 1e6 * max(wire.start_seconds, 0.0),
        "hop_us": 1e6 * max(wire.hop_seconds, 0.0),
        "gigabytes_per_second": 1e-9 * wire.bytes_per_second,
        "handled_ps_per_byte": 1e12 * wire.handled_seconds_per_byte,
    }
