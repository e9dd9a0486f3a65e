"""Measures what lies between hosts of a job, beside what lies inside one, and writes both as a link for `rehearse`."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from pathlib import Path
from statistics import pstdev
from typing import Any

import numpy as np
import tomli_w

from scalewise.errors import BadRequest
from scalewise.jobs.machine_probes import REPEATS, SIZES, collectives_of
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter, SilentListener
from scalewise.launch.campaign import Interrupts, disk_trouble_explained, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.experiment import subject_folder
from scalewise.plan.seating import usual_seating
from scalewise.predict.link import LinkCurve, Wire
from scalewise.predict.link_file import MOST_SPREAD
from scalewise.predict.measured_link import error_of, link_curve, wire_by_ends
from scalewise.predict.wire_fit import MeasuredCollective, WireFit, fit_wire
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.units import bytes_text, counted

LIMIT_SECONDS = 120.0  # of one run: a slow wire carries 64 MiB in some seconds


@dataclass(frozen=True)
class PlacedReduces:
    """All-reduces among ranks that lie on so many hosts, equally many on each."""

    ranks: int
    nodes: int
    points: tuple[MeasuredCollective, ...]

    @property
    def curve(self) -> LinkCurve:
        """The mean time of every size."""
        return replace(link_curve(self.points), nodes=self.nodes)


@dataclass(frozen=True)
class PartWire:
    """The wire of one part of a link, how far collectives differ from it, and why no law was fitted, if none was."""

    wire: Wire
    spread: float
    refused: str = ""


def measure_host_links(nodes: int, out: Path, reporter: Reporter) -> tuple[Path, int]:
    """Measures all-reduces inside this host, between hosts, and among all their ranks.

    Returns the link file, and how many ranks a host had at most. Runs in a job. Between hosts there is one rank on
    each, so that nothing else passes what lies between them.
    """
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        seats = usual_seating(here.facts)
        most = max(seats.counts, default=1)
        inside = [_measured(here, count, 1, out, reporter) for count in seats.counts]
        between = [_measured(here, count, count, out, reporter) for count in dict.fromkeys((2, nodes))]
        together = [_measured(here, most * nodes, nodes, out, reporter)] if most > 1 else []
    path = out / f"link-{nodes}-hosts.toml"
    with disk_trouble_explained(out):
        path.write_text(link_text(inside, between, together, here.facts.host, reporter))
    return path, most


def link_text(
    inside: Sequence[PlacedReduces],
    between: Sequence[PlacedReduces],
    together: Sequence[PlacedReduces],
    host: str,
    reporter: Reporter,
) -> str:
    """A link file; where nothing was measured inside a host, because it has one rank, what is between them stands.

    Beside the fitted figures it holds the measured times, which replace what the figures give.
    """
    outer = part_wire(between)
    inner = part_wire(inside) if inside else outer
    for where, part in (("inside a host", inner), ("between hosts", outer)):
        if part.refused:
            kept = f"the measured times are kept, with a spread of {100 * part.spread:.0f} %"
            reporter.say(f"times {where} follow no simple law ({part.refused}): {kept}", tone="warning")
    wire = outer.wire
    for one in together:  # a rank alone may not fill what leaves a host: several ranks showed at least this rate
        wire = replace(wire, bytes_per_second=max(wire.bytes_per_second, _rate(one)))
    every = (*inside, *between, *together)
    data: dict[str, Any] = {
        "name": "measured between hosts",
        "source": f"all-reduces on {counted(max(one.nodes for one in every), 'host')} around {host}, "
        f"{time.strftime('%Y-%m-%d')}",
        "spread": round(min(MOST_SPREAD, max(inner.spread, outer.spread)), 4),
        "inside": _table(inner.wire),
    }
    if inside:
        data |= {"between": _table(wire), "measured": [_curve_table(one.curve) for one in every]}
    else:  # one rank on each host: as for ranks of one node, whose wire is that between hosts
        data |= {"measured": [_curve_table(replace(one.curve, nodes=1)) for one in every]}
    note = "# Give --per-node: how many ranks a host has.\n" if inside else ""
    return note + tomli_w.dumps(data)


def part_wire(parts: Sequence[PlacedReduces]) -> PartWire:
    """The wire that describes these all-reduces; where no law does, one through the ends of the last, and its error."""
    last = parts[-1].curve
    if last.seconds[-1] <= last.seconds[0]:
        raise BadRequest(
            f"The link among {last.ranks} ranks on {counted(last.nodes, 'host')} could not be measured: "
            f"{bytes_text(last.sizes_bytes[-1])} took no longer than {bytes_text(last.sizes_bytes[0])}.",
            "Try again on idle hosts.",
        )
    centres = [
        MeasuredCollective(one.ranks, size, seconds)
        for one in parts
        for size, seconds in zip(one.curve.sizes_bytes, one.curve.seconds, strict=True)
    ]
    noise = max(error_of(one.points) for one in parts)
    fit = fit_wire(centres)
    if isinstance(fit, WireFit):
        return PartWire(fit.wire, hypot(fit.spread, noise))
    wire = wire_by_ends(last)
    missed = [one.seconds / _by_wire(wire, one.ranks, one.size_bytes) for one in centres]
    return PartWire(wire, hypot(pstdev(np.log(missed).tolist()), noise), fit.reason)


def _by_wire(wire: Wire, ranks: int, size_bytes: float) -> float:
    return wire.time(2 * (ranks - 1), 2 * size_bytes * (ranks - 1) / ranks, size_bytes)


def _rate(placed: PlacedReduces) -> float:
    """The rate at which the largest message went around, which is what left each host at least."""
    curve = placed.curve
    return 2 * curve.sizes_bytes[-1] * (curve.ranks - 1) / curve.ranks / curve.seconds[-1]


def _measured(here: Here, ranks: int, nodes: int, out: Path, reporter: Reporter) -> PlacedReduces:
    where = "inside a host" if nodes == 1 else f"on {nodes} hosts"
    reporter.say(f"measuring all-reduces among {ranks} ranks {where}")
    words = ["--hot", "--sizes", ",".join(map(str, SIZES)), "--repeats", str(REPEATS)]
    place = out / f".slurm-link-{time.time_ns()}"  # all hosts see it
    suite = script_suite(
        subject_folder() / "allreduce.py",
        words,
        launcher="slurm",
        ranks=(ranks,),
        nodes=(nodes,),
        limit_seconds=LIMIT_SECONDS,
    )
    (spec,) = expand(suite, here.facts, Path.cwd()).runs
    try:
        with Interrupts() as interrupts:
            run_campaign([spec], SuiteFolder(place), here.facts, SilentListener(), here.servers, interrupts)
            if interrupts.asked:
                raise KeyboardInterrupt
        (run,) = load(place / spec.name).runs
        if not run.measured:
            raise BadRequest(
                f"Messages among {ranks} ranks {where} could not be measured: "
                f"{run.outcome.sentence if run.outcome else 'not made'}.",
                run.outcome.hint if run.outcome else "",
            )
        return PlacedReduces(ranks, nodes, tuple(collectives_of(run)))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _table(wire: Wire) -> dict[str, float]:
    return {
        "start_us": 1e6 * max(wire.start_seconds, 0.0),
        "hop_us": 1e6 * max(wire.hop_seconds, 0.0),
        "gigabytes_per_second": 1e-9 * wire.bytes_per_second,
        "handled_ps_per_byte": 1e12 * wire.handled_seconds_per_byte,
    }


def _curve_table(curve: LinkCurve) -> dict[str, object]:
    return {
        "ranks": curve.ranks,
        "nodes": curve.nodes,
        "bytes": list(curve.sizes_bytes),
        "microseconds": [round(1e6 * one, 2) for one in curve.seconds],
    }
