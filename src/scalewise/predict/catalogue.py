"""Links by name: `nvlink4`, `ethernet-10g`, `nvlink4+infiniband-ndrx8` (inside a node + between nodes, eight ports)."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log
from pathlib import Path
from typing import Any, Literal

from scalewise.analysis.estimate import normal_quantile
from scalewise.errors import BadRequest, did_you_mean
from scalewise.predict.link import Link, Wire
from scalewise.units import significant

FILE = Path(__file__).with_name("links.toml")
MICRO, PICO, GIGA = 1e-6, 1e-12, 1e9
ACHIEVED_LEVEL = 0.90  # share of links whose rate lies between the low and the high one of their entry
_PORTS = re.compile(r"(?P<name>.+)x(?P<ports>[1-9]\d{0,2})")


@dataclass(frozen=True)
class CatalogueLink:
    """One link of the catalogue."""

    name: str
    what: str
    joins: Literal["inside", "between"]
    wire: Wire  # with the rate that people typically get
    line_bytes_per_second: float  # of the data sheet
    achieved_bytes_per_second: tuple[float, float]  # that people got: a low one and a high one
    spread: float  # standard deviation of the logarithm of the rate, by low and high
    most_ranks: int  # of one node; 0: not limited by the link
    sources: tuple[str, ...]
    guesses: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """All links of the catalogue, and the machines whose links are known as a whole."""

    entries: dict[str, CatalogueLink]
    machines: dict[str, tuple[str, int]]  # name -> name of its link, ranks per node


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with the package."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    entries = {name: _entry(name, table, data) for name, table in data["links"].items()}
    machines = {name: (table["link"], table["ranks_per_node"]) for name, table in data["machines"].items()}
    return Catalogue(entries, machines)


def named_link(text: str, per_node: int | None = None, most_ranks: int = 0) -> Link:
    """The link of that name for up to `most_ranks` ranks; a BadRequest says at once all that is wrong with it."""
    machine = catalogue().machines.get(text.strip().lower())
    if machine is not None:
        composed, own_per_node = machine
        return replace(named_link(composed, per_node or own_per_node, most_ranks), name=text.strip().lower())
    parts = [part.strip().lower() for part in text.split("+")]
    found = [_part(part) for part in parts]
    problems = [one for one in found if isinstance(one, str)]
    entries = [one for one in found if isinstance(one, CatalogueLink)]
    if not problems:
        problems = _misfits(parts, entries, per_node, most_ranks)
    if problems:
        said = "; ".join(problems)
        raise BadRequest(f"--link {text}: {said}{'' if said.endswith('?') else '.'}", known_links())
    return _joined(text, entries, per_node, most_ranks)


def is_network(link: Link) -> bool:
    """Tells whether the link is only one between nodes, which ranks on cores could use as well."""
    found = _part(link.name) if link.origin == "catalogue" else ""
    return isinstance(found, CatalogueLink) and found.joins == "between"


def known_links() -> str:
    """The names that a link can have, for a hint."""
    entries, machines = catalogue().entries, catalogue().machines
    inside = ", ".join(name for name, entry in entries.items() if entry.joins == "inside")
    between = ", ".join(name for name, entry in entries.items() if entry.joins == "between")
    return (
        f"Inside a node: {inside}. Between nodes: {between}. Together: nvlink4+infiniband-ndrx8 --per-node 8 (x8: "
        f"eight ports a node). Whole machines: {', '.join(machines)}. Or measured, or a TOML file of your own."
    )


def _part(text: str) -> CatalogueLink | str:
    """The catalogue entry of one name with its ports, or a text that says what is wrong with it."""
    entries = catalogue().entries
    if text in entries:
        return entries[text]
    ports = _PORTS.fullmatch(text)
    entry = entries.get(ports["name"]) if ports else None
    if ports is None or entry is None:
        name = ports["name"] if ports else text
        near = did_you_mean(name, [*entries, *catalogue().machines, "measured"])
        return f"there is no link {name!r}" + (f"; {near}" if near else "")
    count = int(ports["ports"])
    if entry.joins == "inside":
        return f"{entry.name} is told for one rank, and has no ports to count ({text!r})"
    return replace(
        entry,
        name=text,
        what=f"{count} ports of {entry.what}",
        wire=replace(entry.wire, bytes_per_second=count * entry.wire.bytes_per_second),
        line_bytes_per_second=count * entry.line_bytes_per_second,
        achieved_bytes_per_second=(
            count * entry.achieved_bytes_per_second[0],
            count * entry.achieved_bytes_per_second[1],
        ),
    )


def _misfits(
    parts: Sequence[str], entries: Sequence[CatalogueLink], per_node: int | None, most_ranks: int
) -> list[str]:
    if len(entries) > 2:
        return [f"{len(entries)} links are too many: one inside a node and one between nodes"]
    if len(entries) == 2:
        problems = [
            f"{entry.name} joins {'ranks of a node' if entry.joins == 'inside' else 'nodes'} and stands where "
            f"the link {'between nodes' if where == 'between' else 'inside a node'} should"
            for entry, where in zip(entries, ("inside", "between"), strict=True)
            if entry.joins != where
        ]
        if per_node is None:
            problems.append("how many ranks are in a node is not said: add --per-node 8")
        return problems
    if entries[0].joins == "between" and per_node not in (None, 1):
        return [f"{parts[0]} joins nodes; what joins the {per_node} ranks of each must be said: nvlink4+{parts[0]}"]
    if entries[0].joins == "inside" and per_node is not None and per_node < most_ranks:
        nodes = f"nodes of {per_node} (--per-node)"
        return [f"{parts[0]} joins ranks of a node; what joins {nodes} must be said: {parts[0]}+infiniband-ndr"]
    return []


def _joined(text: str, entries: Sequence[CatalogueLink], per_node: int | None, most_ranks: int) -> Link:
    first, last = entries[0], entries[-1]
    alone = len(entries) == 1
    beyond = []
    if alone and first.joins == "between":
        alone, per_node = False, 1
        beyond = [f"that every rank has a node and {first.name} to itself: --per-node and a link inside say otherwise"]
    on_one_node = most_ranks if alone or per_node is None else per_node
    if first.joins == "inside" and 0 < first.most_ranks < on_one_node:
        beyond = [f"that {first.name} joins {on_one_node} ranks; nodes with more than {first.most_ranks} are not known"]
    return Link(
        name=text.strip().lower(),
        inside=first.wire,
        between=None if alone else last.wire,
        ranks_per_node=0 if alone or per_node is None else per_node,
        origin="catalogue",
        source="; ".join((*map(rate_text, entries), *_sources(entries))),
        spread=max(first.spread, last.spread),
        guesses=tuple(dict.fromkeys([*(guess for entry in entries for guess in entry.guesses), *beyond])),
    )


def rate_text(entry: CatalogueLink) -> str:
    """A text that says what people get of a link, and what its data sheet says."""
    low, high = (significant(rate / GIGA) for rate in entry.achieved_bytes_per_second)
    typical, line = (significant(rate / GIGA) for rate in (entry.wire.bytes_per_second, entry.line_bytes_per_second))
    return f"{entry.name}: typically {typical} GB/s, {low} to {high} in nine of ten, {line} by its data sheet"


def _sources(entries: Sequence[CatalogueLink]) -> dict[str, None]:
    return dict.fromkeys(source for entry in entries for source in entry.sources)


def _entry(name: str, table: dict[str, Any], data: dict[str, Any]) -> CatalogueLink:
    achieved = table["achieved"]
    low, high = GIGA * achieved["low"], GIGA * achieved["high"]
    return CatalogueLink(
        name=name,
        what=table["what"],
        joins=table["joins"],
        wire=wire_of({**table, "gigabytes_per_second": achieved["typical"]}),
        line_bytes_per_second=GIGA * table["line_gigabytes_per_second"],
        achieved_bytes_per_second=(low, high),
        spread=log(high / low) / (2 * normal_quantile(ACHIEVED_LEVEL)),
        most_ranks=table.get("most_ranks", 0),
        sources=tuple(data["sources"][key] for key in table["sources"]),
        guesses=tuple(data["guesses"][key] for key in table["guesses"]),
    )


def wire_of(table: dict[str, Any]) -> Wire:
    """A wire from the units that files use: microseconds, 10^9 bytes per second, picoseconds per byte."""
    return Wire(
        start_seconds=table["start_us"] * MICRO,
        hop_seconds=table["hop_us"] * MICRO,
        bytes_per_second=table["gigabytes_per_second"] * GIGA,
        handled_seconds_per_byte=table.get("handled_ps_per_byte", 0.0) * PICO,
    )
