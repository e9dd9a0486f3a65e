"""The link that a prediction is made over: the one that was asked for, or the one that was measured here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

from scalewise.plan.seating import Seating
from scalewise.predict.answer import Refused
from scalewise.predict.catalogue import is_network, known_links
from scalewise.predict.collective_times import placed_curve, seconds
from scalewise.predict.link import Link, Wire, slower_wire
from scalewise.predict.measured_link import NoLink, measured_link
from scalewise.predict.probe import LinkProbe, sharing_of
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.timeline import APART, Sharing

ON_CORES = "that cores are as busy with a message, and as long at least, as with one between ranks of this machine"
OFF_CORES = "that engines of their own carry messages, as those of GPUs do: over this link no core is busy with them"
ONE_MACHINE = "that nodes of {} ranks (--per-node) are joined as ranks of this machine are: nothing else was measured"
UNEVEN = "that the last node has {} of the {} ranks; each is told that its node has {}, as the others have"
NOT_PLACED = (
    "that among {} ranks on {} nodes all-reduces differ from the figures as among the {} on {} that were measured"
)
NOT_MEASURED = "the link of this machine was not measured"


@dataclass(frozen=True)
class AskedLink:
    """The link that a request names."""

    link: Link | None  # None: as measured here
    measured_asked: bool  # that the link is to be the measured one even for ranks that do not fit here
    per_node: int | None
    most_ranks: int  # of those asked for


class Links:
    """The links of one request, and how cores are shared beside their messages."""

    none: ClassVar[Link] = Link("none", Wire(0.0, 0.0, inf), origin="given", most_ranks=1)

    def __init__(
        self, asked: AskedLink, seats: Seating, probe: LinkProbe | None, rehearsals: Mapping[int, RehearsedRank]
    ) -> None:
        self._asked, self._seats, self._probe = asked, seats, probe
        self._given: Link | None = None
        self._beside_given = APART
        if asked.link is not None:
            self._given = self._on_cores(asked.link) if seats.device == "cpu" else asked.link
            self._beside_given = self._sharing_beside(self._given, rehearsals)

    def sharing_here(self, ranks: int) -> Sharing:
        """The sharing of cores among that many ranks of this machine and their messages."""
        if self._probe is None or self._seats.device != "cpu":
            return APART
        return sharing_of(self._probe.overlaps, self._seats.cores_per_rank, ranks)

    def sharing(self, ranks: int) -> Sharing:
        """The sharing of cores among that many ranks and their messages over the link that was asked for."""
        return self.sharing_here(ranks) if self._given is None else self._beside_given

    def measured(self, ranks: int) -> Link | NoLink:
        """The link of this machine among that many ranks, or the reason why it is not known."""
        if self._probe is None:
            return NoLink(NOT_MEASURED)
        if not self._probe.points:
            return NoLink(f"{NOT_MEASURED}: {'; '.join(self._probe.troubles)}")
        return measured_link(self._probe, ranks)

    def asked(self, ranks: int) -> Link | Refused:
        """The link for a prediction of that many ranks, or a refusal."""
        if self._given is not None:
            return replace(self._given, guesses=(*self._given.guesses, *_placement_guesses(self._given, ranks)))
        if ranks == 1:
            return self.none
        if ranks > self._seats.slots and not self._asked.measured_asked:
            hint = f"Name it with --link, or --link measured to go on from what was measured here. {known_links()}"
            return Refused(ranks, f"{ranks} ranks do not fit here, and what would join them is not said.", hint)
        link = self.measured(ranks)
        if isinstance(link, NoLink):
            return Refused(
                ranks,
                f"The link of this machine is not known well enough among {ranks} ranks: {link.reason}.",
                "Measure it on an idle machine (scalewise machine --measure), or name a link with --link.",
            )
        farthest = max(self._seats.slots, self._asked.most_ranks) if self._asked.measured_asked else self._seats.slots
        per_node = self._asked.per_node
        nodes = (ONE_MACHINE.format(per_node),) if per_node and per_node < ranks else ()
        return replace(link, most_ranks=min(link.most_ranks or farthest, farthest), guesses=(*link.guesses, *nodes))

    def _on_cores(self, link: Link) -> Link:
        """Ranks on cores: over a network they carry their messages themselves, and no quicker than here."""
        if not _by_cores(link):
            return replace(link, guesses=(*link.guesses, OFF_CORES))
        link = replace(link, carrier="gloo")
        here = self.measured(self._seats.counts[0]) if self._seats.counts else NoLink(NOT_MEASURED)
        if isinstance(here, NoLink):
            return link
        if link.origin == "catalogue":
            wire = slower_wire(link.inside, here.inside)
            link = replace(link, inside=wire, between=wire)
        return replace(link, guesses=(*link.guesses, ON_CORES))

    def _sharing_beside(self, link: Link, rehearsals: Mapping[int, RehearsedRank]) -> Sharing:
        """The sharing of cores over this link: a message needs their time as here, less of it over a slower link."""
        here = self.measured(self._seats.counts[0]) if self._seats.counts else NoLink(NOT_MEASURED)
        several = [one for ranks, one in sorted(rehearsals.items()) if ranks > 1 and one.typical.messages]
        if self._seats.device != "cpu" or not _by_cores(link) or isinstance(here, NoLink) or not several:
            return APART
        ranks, messages = several[0].ranks, several[0].typical.messages
        own = sum(seconds(here, one.kind, one.size_bytes, self._seats.counts[0]) for one in messages)
        over = sum(seconds(link, one.kind, one.size_bytes, one.ranks or ranks, one.nodes) for one in messages)
        here_too = self.sharing_here(self._seats.counts[0])
        work = here_too.work * own / over if over else 0.0
        return replace(here_too, work=min(1.0, work), beside_seconds=0.0)  # measured of messages here alone


def _placement_guesses(link: Link, ranks: int) -> Iterator[str]:
    """The guesses about the places of so many ranks on the nodes of a given link."""
    nodes = link.nodes(ranks)
    if nodes == 1:
        return
    rest = ranks % link.ranks_per_node
    if rest:
        yield UNEVEN.format(rest, ranks, link.ranks_per_node)
    placed = placed_curve(link, ranks)
    if placed is not None and (placed.ranks, placed.nodes) != (ranks, nodes):
        yield NOT_PLACED.format(ranks, nodes, placed.ranks, placed.nodes)


def _by_cores(link: Link) -> bool:
    return link.origin != "catalogue" or is_network(link)
