"""Predicts larger placements of a cluster from a table of what was measured on few, or from a folder of runs."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest, did_you_mean
from scalewise.predict.catalogue import is_network
from scalewise.predict.cluster_answer import Asked, ClusterAnswer, answer_of
from scalewise.predict.cluster_fit import LinkPriors
from scalewise.predict.cluster_runs import rows_of_runs
from scalewise.predict.cluster_table import MeasuredPlacement, check_bases, read_cluster_table
from scalewise.predict.link import Link, Wire
from scalewise.predict.placement import Placement


@dataclass(frozen=True)
class ExtrapolateRequest:
    """A table or a folder of runs, and what is to be predicted from it."""

    source: Path
    nodes: tuple[int, ...] = ()
    per_node: int | None = None  # None: as many as the fullest node that was measured
    placements: tuple[Placement, ...] = ()
    models: tuple[str, ...] = ()
    local_batches: tuple[float, ...] = ()
    link: Link | None = None


def extrapolate_table(request: ExtrapolateRequest) -> ClusterAnswer:
    """Reads what was measured, fits the law of each cluster, and predicts."""
    source = request.source
    rows = rows_of_runs(source) if source.is_dir() else read_cluster_table(source)
    check_bases(rows, str(source))
    _check_models(rows, request)
    full = request.per_node or max(row.placement.busiest for row in rows)
    placements = (*(Placement((full,) * count) for count in request.nodes), *request.placements)
    if request.per_node and not placements:
        most = max(row.placement.nodes for row in rows)
        placements = tuple(Placement((full,) * (times * most)) for times in (2, 4, 8))
    link = link_priors(request.link) if request.link else None
    _check_between(rows, placements, link, str(source))
    ordered = tuple(sorted(placements, key=lambda one: (one.gpus, one.nodes, one.per_node)))
    return answer_of(rows, Asked(ordered, request.models, request.local_batches), str(source), link)


def link_priors(link: Link) -> LinkPriors:
    """The rates that people get from a link of that name, and how far these differ."""
    if is_network(link):
        return LinkPriors(link.name, 0.0, _rate(link.between or link.inside), link.spread)
    between = _rate(link.between) if link.between else 0.0
    return LinkPriors(link.name, _rate(link.inside), between, link.spread)


def _rate(wire: Wire) -> float:
    return 1 / (1 / wire.bytes_per_second + wire.handled_seconds_per_byte)


def _check_models(rows: tuple[MeasuredPlacement, ...], request: ExtrapolateRequest) -> None:
    known = sorted({row.model for row in rows})
    unknown = [name for name in request.models if name not in known]
    if unknown:
        near = did_you_mean(unknown[0], known)
        raise BadRequest(
            f"{request.source} has no model {unknown[0]!r}{'; ' + near if near else '.'}", f"It has {', '.join(known)}."
        )


def _check_between(
    rows: tuple[MeasuredPlacement, ...], placements: tuple[Placement, ...], link: LinkPriors | None, source: str
) -> None:
    """Refuses several nodes where nothing says what lies between them."""
    if placements and max(one.nodes for one in placements) == 1:
        return
    for cluster in dict.fromkeys(row.cluster for row in rows):
        own = [row for row in rows if row.cluster == cluster]
        if any(row.placement.nodes > 1 for row in own):
            continue
        sizes = all(row.parameters for row in own)
        inside = link is not None and link.inside_rate and any(row.placement.gpus > 1 for row in own)
        if link is None or not link.between_rate:
            raise BadRequest(
                f"{source}: nothing was measured on several nodes of {cluster}, and what joins them is not said.",
                "Add rows of two nodes, which is best; or name what joins GPUs and nodes: --link pcie3+ethernet-25g.",
            )
        if not sizes and not inside:
            raise BadRequest(
                f"{source}: how much a step of {cluster} sends is not known, so {link.name} says no time.",
                "Add a column parameters with the size of each model; or rows with several GPUs of one node, and name "
                "both links: --link pcie3+ethernet-25g.",
            )
