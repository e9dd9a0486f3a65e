"""The request of `scalewise run`, read from its options."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from scalewise.errors import BadRequest
from scalewise.jobs.measure_request import MeasureRequest
from scalewise.plan.words import parse_ranks
from scalewise.records.spec import Nodes


def spelled(option: str, value: object = "") -> str:
    """Returns an option as it is written on the command line: `--limit 5`."""
    return f"--{option.replace('_', '-')} {value}".rstrip()


def requested_measurement(what: str, args: Sequence[str], options: Mapping[str, Any]) -> MeasureRequest:
    """The request; a BadRequest where a word cannot be read."""
    names = {field.name for field in fields(MeasureRequest)}
    given = {name: value for name, value in options.items() if name in names}
    ranks = parse_ranks(options["ranks"]) if options["ranks"] is not None else None
    return MeasureRequest(what, tuple(args), **{**given, "ranks": ranks, "env": _environment(options["env"])})


def requested_nodes(options: Mapping[str, Any]) -> Nodes | None:
    """Several hosts, or None for this one alone."""
    count, node_rank, master = options["nodes"], options["node_rank"], options["master"]
    if count == 1 and not node_rank and not master:
        return None
    address, _, port = master.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadRequest(f"--master {master!r} is not HOST:PORT.", "Give the same address on every host, as host 0's.")
    if count < 1 or not 0 <= node_rank < count:
        raise BadRequest(f"There is no host {node_rank} among {count}.", "--node-rank counts from 0 to --nodes less 1.")
    if options["launcher"] != "torchrun":
        raise BadRequest("Several hosts need torchrun.", "Add: --launcher torchrun.")
    return Nodes(count, node_rank, address, int(port))


def _environment(settings: Sequence[str]) -> dict[str, str]:
    for one in settings:
        if not one.partition("=")[0].isidentifier() or "=" not in one:
            raise BadRequest(f"--env {one} sets no variable.", "Write it as --env NAME=VALUE.")
    return {name: value for name, _, value in (one.partition("=") for one in settings)}
