"""The requests of the verbs, read from the words of the command line; all that is wrong with one is told at once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewise.errors import BadRequest
from scalewise.jobs.requests import Arguments, MeasureRequest
from scalewise.plan.words import PLAIN, parse_changes, parse_nodes, parse_ranks, ranks_problem
from scalewise.records.spec import Nodes

if TYPE_CHECKING:
    from scalewise.jobs.diagnose import DiagnoseRequest
    from scalewise.jobs.extrapolate import ExtrapolateRequest
    from scalewise.jobs.rehearse_request import RehearseRequest
    from scalewise.predict.link import Link


def spelled(option: str, value: object = "") -> str:
    """Returns an option as it is written on the command line: `--limit 5`."""
    return f"--{option.replace('_', '-')} {value}".rstrip()


def requested_measurement(what: str, args: Sequence[str], options: Mapping[str, Any]) -> MeasureRequest:
    """The request; a BadRequest where a word cannot be read."""
    names = {field.name for field in fields(MeasureRequest)}
    given = {name: value for name, value in options.items() if name in names}
    ranks = parse_ranks(options["ranks"]) if options["ranks"] is not None else None
    nodes = parse_nodes(options["nodes"]) if options["nodes"] is not None else None
    return MeasureRequest(
        what, tuple(args), **{**given, "ranks": ranks, "nodes": nodes, "env": _environment(options["env"])}
    )


def requested_nodes(options: Mapping[str, Any]) -> Nodes | None:
    """The hosts on which this command was started by hand, or None for this one alone."""
    node_rank, master = options["node_rank"], options["master"]
    count = max(parse_nodes(options["nodes"])) if options["nodes"] is not None else 1
    if (count == 1 and not node_rank and not master) or options["launcher"] == "slurm":
        return None
    if options["launcher"] != "torchrun":
        raise BadRequest("Several hosts need a launcher for them.", "Add: --launcher slurm, or --launcher torchrun.")
    address, _, port = master.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadRequest(f"--master {master!r} is not HOST:PORT.", "Give the same address on every host, as host 0's.")
    if count < 1 or not 0 <= node_rank < count:
        raise BadRequest(f"There is no host {node_rank} among {count}.", "--node-rank counts from 0 to --nodes less 1.")
    return Nodes(count, node_rank, address, int(port))


def _environment(settings: Sequence[str]) -> dict[str, str]:
    for one in settings:
        if not one.partition("=")[0].isidentifier() or "=" not in one:
            raise BadRequest(f"--env {one} sets no variable.", "Write it as --env NAME=VALUE.")
    return {name: value for name, _, value in (one.partition("=") for one in settings)}


def examined_on_cpu(options: Mapping[str, Any]) -> bool:
    """Tells whether CPU ranks are to stand in; raises a BadRequest for times, ranks and devices that cannot be."""
    for name in ("limit", "stall"):
        if not 0 < options[name] < float("inf"):
            raise BadRequest(f"--{name} {options[name]:g} is not a time.", "Give a number of seconds above 0.")
    problem = ranks_problem(options["ranks"])
    if problem:
        raise BadRequest(f"--ranks: {problem}.", "Two ranks show most mistakes.")
    on_cpu: bool = options["on"] == "cpu"
    if on_cpu and options["device"] == "cuda":
        raise BadRequest("--on cpu and --device cuda contradict each other.", "Leave one of them out.")
    return on_cpu


def requested_diagnosis(script: str | None, args: Sequence[str], options: Mapping[str, Any]) -> "DiagnoseRequest":
    """The request, or a BadRequest that says what is wrong with it."""
    from scalewise.jobs.diagnose import DiagnoseRequest

    if script is None:
        raise BadRequest("Which script?", "Name it: scalewise doctor train.py --ranks 2 -- ARGS")
    on_cpu = examined_on_cpu(options)
    nodes, slurm = options.get("nodes", 1), options.get("launcher") == "slurm"
    if nodes < 1:
        raise BadRequest(f"--nodes {nodes} is no number of hosts.", "Give 1 or more.")
    if nodes != 1 and not slurm:
        raise BadRequest("Several hosts need a launcher for them.", "Add: --launcher slurm.")
    return DiagnoseRequest(
        script=Path(script),
        args=tuple(args),
        ranks=options["ranks"],
        nodes=(nodes,) if slurm else (),
        plain=options["plain"],
        on_cpu=on_cpu,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        replays=not options["no_replay"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        changes=parse_changes(options.get("change") or PLAIN),
    )


def requested_rehearsal(script: str, args: Sequence[str], options: Mapping[str, Any]) -> "RehearseRequest":
    """The request, or a BadRequest with everything that is wrong with it."""
    from scalewise.jobs.rehearse_request import RehearseRequest, is_measured, size_in_bytes, words_of

    asked = Arguments()
    ranks = asked.attempt(lambda: parsed_ranks(options["ranks"]), ())
    link = asked.attempt(lambda: _link(options, max(ranks, default=1)), None)
    if not Path(script).exists():
        asked.wrong(f"The script {script} does not exist.", "Check the path.")
    for name in ("limit", "stall", "price", "steps", "per_node"):
        if options[name] is not None and not 0 < options[name] < inf:
            wanted = "above 0" if isfinite(options[name]) else "a finite number above 0"
            asked.wrong(f"{spelled(name, f'{options[name]:g}')} is not {wanted}.")
    if options["price"] is not None and options["steps"] is None:
        asked.wrong("--price is there and --steps is not.", "Say how many steps the whole training has.")
    memory = asked.attempt(lambda: size_in_bytes(options["memory"], spelled), None)
    also = tuple(asked.attempt(partial(words_of, text, spelled), ()) for text in options["also"])
    asked.check()
    return RehearseRequest(
        script=Path(script),
        args=tuple(args),
        ranks=ranks,
        link=link,
        measured_asked=is_measured(options["link"]),
        per_node=options["per_node"],
        scaling=options["scaling"],
        memory_bytes=memory,
        price_per_hour=options["price"],
        steps=options["steps"],
        check=not options["no_check"] and not options.get("computing_from"),
        advice=not options["no_advice"],
        also=also,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        computing_from=options.get("computing_from"),
        keep_computing=options.get("keep_computing"),
    )


def parsed_ranks(text: str, option: str = "--ranks") -> tuple[int, ...]:
    """The numbers of ranks in a list, fewest first; raises a BadRequest that names what is none."""
    from scalewise.jobs.rehearse_request import MOST_RANKS

    words = [word.strip() for word in text.split(",")]
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= MOST_RANKS]
    if bad:
        said = ", ".join(repr(word[:30]) for word in bad)
        raise BadRequest(
            f"{option} {text[:60]}: {said} {'is' if len(bad) == 1 else 'are'} no number of ranks.",
            f"Give whole numbers from 1 to {MOST_RANKS} with commas between, such as {option} 2,8,64.",
        )
    return tuple(sorted({int(word) for word in words}))


def _link(options: Mapping[str, Any], most_ranks: int) -> "Link | None":
    """A name, a file, or None for the link of this machine."""
    from scalewise.jobs.rehearse_request import asked_link
    from scalewise.predict.link_file import link_from_file

    text, file = options["link"], options["link_file"]
    if text and file:
        raise BadRequest(f"--link {text} and --link-file {file} are two links.", "Leave one of them out.")
    return link_from_file(file, options["per_node"]) if file else asked_link(text, options["per_node"], most_ranks)


def requested_extrapolation(source: Path, options: Mapping[str, Any]) -> "ExtrapolateRequest":
    """The request, or a BadRequest with everything that is wrong with it."""
    from scalewise.jobs.extrapolate import ExtrapolateRequest
    from scalewise.jobs.rehearse_request import asked_link
    from scalewise.predict.placement import MOST_PER_NODE, read_placement

    asked = Arguments()
    nodes = asked.attempt(lambda: _nodes(options["nodes"]), ())
    placements = tuple(asked.attempt(partial(read_placement, text), None) for text in options["placement"])
    per_node = options["per_node"]
    if per_node is not None and not 1 <= per_node <= MOST_PER_NODE:
        asked.wrong(f"{spelled('per_node', per_node)} is no number of GPUs of a node.")
    for batch in options["local_batch"]:
        if not 0 < batch < float("inf"):
            asked.wrong(f"{spelled('local_batch', f'{batch:g}')} is no batch: it must be above 0.")
    link = asked.attempt(lambda: asked_link(options["link"], per_node or 1, 1), None)
    asked.check()
    return ExtrapolateRequest(
        source=source,
        nodes=nodes,
        per_node=per_node,
        placements=tuple(one for one in placements if one is not None),
        models=tuple(options["model"]),
        local_batches=tuple(options["local_batch"]),
        link=link,
    )


def _nodes(text: str | None) -> tuple[int, ...]:
    from scalewise.predict.placement import MOST_NODES

    words = [word.strip() for word in text.split(",")] if text else []
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,6}", word) or not 1 <= int(word) <= MOST_NODES]
    if bad:
        raise BadRequest(
            f"--nodes {(text or '')[:60]}: {', '.join(repr(word[:20]) for word in bad)} is no number of nodes.",
            f"Give whole numbers from 1 to {MOST_NODES} with commas between, such as --nodes 4,8,16.",
        )
    return tuple(sorted({int(word) for word in words}))
