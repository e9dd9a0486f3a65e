"""Finds the next faster links of the catalogue to replace the present one."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from scalewise.predict.catalogue import CatalogueLink, catalogue
from scalewise.predict.link import Link, Wire

MOST = 2  # of each kind: the next, and the one after it
_PORTS = re.compile(r"x(\d+)$")


def faster_links(link: Link, ranks: int) -> tuple[Link, ...]:
    """Links with a faster wire inside the node or, if the ranks fill several nodes, between nodes."""
    composed, _ = catalogue().machines.get(link.name, (link.name, 0))  # of a whole machine: the links in it
    names = composed.split("+")
    if len(names) > 1 and link.nodes(ranks) > 1 and link.between is not None:
        between = _next("between", link.between, names[-1])
        inside = _next("inside", link.inside, names[0])
        return (
            *(_with(link, f"{names[0]}+{name}", entry, between=entry.wire) for name, entry in between),
            *(_with(link, f"{name}+{names[-1]}", entry, inside=entry.wire) for name, entry in inside),
        )
    known = catalogue().entries.get(_PORTS.sub("", names[0]))
    joins = known.joins if known else "inside"
    found = []
    for name, entry in _next(joins, link.inside, names[0]):
        other = _with(link, name, entry, inside=entry.wire, between=entry.wire if link.between else None)
        found.append(replace(other, source="; ".join(entry.sources), guesses=entry.guesses))
    return tuple(found)


def _with(link: Link, name: str, entry: CatalogueLink, inside: Wire | None = None, between: Wire | None = None) -> Link:
    return replace(
        link,
        name=name,
        inside=inside or link.inside,
        between=between or link.between,
        origin="catalogue",
        spread=max(link.spread, entry.spread),
        guesses=tuple(dict.fromkeys((*link.guesses, *entry.guesses))),
        curves=(),  # curves are those of the present link
        most_ranks=0,
    )


def _next(joins: Literal["inside", "between"], wire: Wire, name: str) -> list[tuple[str, CatalogueLink]]:
    """The catalogue's next faster entries by rate, of the same kind first, with as many ports as there are now."""
    found = _PORTS.search(name)
    ports = int(found[1]) if found and joins == "between" else 1
    faster = [
        (f"{entry.name}x{ports}" if ports > 1 else entry.name, entry)
        for entry in _ported(joins, ports)
        if entry.wire.bytes_per_second > wire.bytes_per_second * 1.001
    ]
    own = _kind(name)
    return sorted(faster, key=lambda one: (_kind(one[0]) != own, one[1].wire.bytes_per_second))[:MOST]


def _kind(name: str) -> tuple[str, bool]:
    """The kind of a link, such as NVLink or Ethernet, and whether it goes through the host."""
    return name.rstrip("0123456789").split("-")[0].rstrip("0123456789"), name.endswith("-host")


def _ported(joins: str, ports: int) -> Iterator[CatalogueLink]:
    for entry in catalogue().entries.values():
        if entry.joins == joins:
            rate = ports * entry.wire.bytes_per_second
            yield replace(entry, wire=replace(entry.wire, bytes_per_second=rate))
