"""The requests of the verbs, read from the words of the command line; all that is wrong with one is told at once."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from scalewise.errors import BadRequest
from scalewise.jobs.requests import Arguments, MeasureRequest
from scalewise.plan.words import PLAIN, parse_changes, parse_nodes, parse_ranks, ranks_problem
from scalewise.records.spec import Nodes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from scalewise.jobs.check import CheckRequest
    from scalewise.jobs.diagnose import DiagnoseRequest
    from scalewise.jobs.extrapolate import ExtrapolateRequest
    from scalewise.jobs.parity_runs import ParityRequest
    from scalewise.jobs.rehearse_request import RehearseRequest
    from scalewise.jobs.strategy_predictions import PredictionRequest
    from scalewise.jobs.strategy_runs import StrategiesRequest
    from scalewise.predict.link import Link

Request = TypeVar("Request", bound="DataclassInstance")
RANKS_OF_A_NODE = 8  # where a link has two parts and nothing else is said


def spelled(option: str, value: object = "") -> str:
    """Returns an option as it is written on the command line: `--limit 5`."""
    return f"--{option.replace('_', '-')} {value}".rstrip()


def _filled(kind: type[Request], options: Mapping[str, Any], **read: Any) -> Request:
    """The request with the options that are named as its fields, and with the fields that had to be read."""
    names = {field.name for field in fields(kind)}
    given = {name: value for name, value in options.items() if name in names and value is not None}
    return kind(**(given | read))


def requested_measurement(options: Mapping[str, Any]) -> MeasureRequest:
    """The request; a BadRequest where a word cannot be read."""
    ranks = parse_ranks(options["ranks"]) if options["ranks"] is not None else None
    nodes = parse_nodes(options["nodes"]) if options["nodes"] is not None else None
    return _filled(MeasureRequest, options, ranks=ranks, nodes=nodes, env=_environment(options["env"]))


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


def _examined_on_cpu(options: Mapping[str, Any], hint: str = "Two ranks show most mistakes.") -> bool:
    """Tells whether CPU ranks are to stand in; raises a BadRequest for times, ranks and devices that cannot be."""
    asked = Arguments()
    _check_times(asked, options)
    asked.check()
    problem = ranks_problem(options["ranks"])
    if problem:
        raise BadRequest(f"--ranks: {problem}.", hint)
    on_cpu: bool = options["on"] == "cpu"
    if on_cpu and options["device"] == "cuda":
        raise BadRequest("--on cpu and --device cuda contradict each other.", "Leave one of them out.")
    return on_cpu


def _check_times(asked: Arguments, options: Mapping[str, Any]) -> None:
    for name in ("limit", "stall"):
        seconds = options.get(f"{name}_seconds", 1.0)
        if not 0 < seconds < inf:
            asked.wrong(f"--{name} {seconds:g} is not a time.", "Give a number of seconds above 0.")


def requested_diagnosis(options: Mapping[str, Any]) -> "DiagnoseRequest":
    """The request, or a BadRequest that says what is wrong with it."""
    from scalewise.jobs.diagnose import DiagnoseRequest

    if options["script"] is None:
        raise BadRequest("Which script?", "Name it: scalewise doctor train.py --ranks 2 -- ARGS")
    on_cpu = _examined_on_cpu(options)
    nodes, slurm = options.get("nodes", 1), options.get("launcher") == "slurm"
    if nodes < 1:
        raise BadRequest(f"--nodes {nodes} is no number of hosts.", "Give 1 or more.")
    if nodes != 1 and not slurm:
        raise BadRequest("Several hosts need a launcher for them.", "Add: --launcher slurm.")
    changes = parse_changes(options.get("change") or PLAIN)
    return _filled(DiagnoseRequest, options, nodes=(nodes,) if slurm else (), on_cpu=on_cpu, changes=changes)


def requested_parity(options: Mapping[str, Any]) -> "ParityRequest":
    """The request, or a BadRequest that says what is wrong with it."""
    from scalewise.jobs.parity_runs import MOST_STEPS, ParityRequest

    on_cpu = _examined_on_cpu(options)
    if options["ranks"] < 2 and options["against"] is None and not options["resume"]:
        raise BadRequest("--ranks 1 compares one rank with itself.", "Give two or more.")
    if not 1 <= options["steps"] <= MOST_STEPS:
        raise BadRequest(f"--steps {options['steps']} is no number of steps.", f"Give one from 1 to {MOST_STEPS}.")
    if options["resume"] and options["against"] is not None:
        raise BadRequest("--resume and --against are two questions.", "Ask one of them.")
    again, changes = shlex.split(options["resume_args"] or ""), parse_changes(options.get("change") or PLAIN)
    return _filled(ParityRequest, options, on_cpu=on_cpu, changes=changes, resume_args=tuple(again))


def requested_check(options: Mapping[str, Any]) -> "CheckRequest":
    """The request, or a BadRequest that says what is wrong with it."""
    from scalewise.course.tasks import task_named
    from scalewise.jobs.check import CheckRequest

    task = task_named(options["name"])
    on_cpu = _examined_on_cpu(options, "Two ranks show what the sheets ask for.")
    return _filled(CheckRequest, options, task=task, on_cpu=on_cpu, ranks=1 if task.plain else options["ranks"])


def requested_strategies(options: Mapping[str, Any]) -> "StrategiesRequest":
    """The request, or a BadRequest with everything that is wrong with it."""
    from scalewise.jobs.strategy_runs import StrategiesRequest, chosen_arms

    asked = Arguments()
    _check_times(asked, options)
    problem = ranks_problem(options["ranks"])
    if problem:
        asked.wrong(f"--ranks: {problem}.", "Give two or more.")
    elif options["ranks"] < 2 and not options["predict"]:
        asked.wrong("--ranks 1 leaves nothing to divide.", "Give two or more, or predict others: --predict 8,64.")
    for name, value in (("steps", options["steps"]), ("repeat", options["repeats"])):
        if value < 1:
            asked.wrong(f"--{name} {value} measures nothing.", "Give 1 or more.")
    only = tuple(filter(None, (word.strip() for word in (options["only"] or "").split(","))))
    asked.attempt(lambda: chosen_arms(only), ())
    predict = asked.attempt(lambda: _prediction(options), None)
    asked.check()
    return _filled(StrategiesRequest, options, only=only, predict=predict)


def _prediction(options: Mapping[str, Any]) -> "PredictionRequest | None":
    from scalewise.jobs.rehearse_request import asked_link, is_measured, size_in_bytes
    from scalewise.jobs.strategy_predictions import PredictionRequest

    if not options["predict"]:
        alone = [name for name in ("link", "memory", "per_node") if options[name] is not None]
        if alone:
            said = ", ".join(spelled(name) for name in alone)
            raise BadRequest(f"{said} says nothing without --predict.", "Add numbers of ranks: --predict 8,64.")
        return None
    ranks = _predicted_ranks("--predict", options["predict"])
    per_node = options["per_node"] or (RANKS_OF_A_NODE if "+" in (options["link"] or "") else None)
    link = asked_link(options["link"], per_node, max(ranks))
    memory = size_in_bytes(options["memory"], spelled)
    return PredictionRequest(ranks, link, is_measured(options["link"]), per_node, memory)


def requested_rehearsal(options: Mapping[str, Any]) -> "RehearseRequest":
    """The request, or a BadRequest with everything that is wrong with it."""
    from scalewise.jobs.rehearse_request import RehearseRequest, is_measured, size_in_bytes, words_of

    asked = Arguments()
    ranks = asked.attempt(lambda: _predicted_ranks("--ranks", options["ranks"]), ())
    link = asked.attempt(lambda: _link(options, max(ranks, default=1)), None)
    if not options["script"].exists():
        asked.wrong(f"The script {options['script']} does not exist.", "Check the path.")
    for name in ("limit_seconds", "stall_seconds", "price_per_hour", "steps", "per_node"):
        if options[name] is not None and not 0 < options[name] < inf:
            word = name.removesuffix("_seconds").removesuffix("_per_hour")
            wanted = "above 0" if isfinite(options[name]) else "a finite number above 0"
            asked.wrong(f"{spelled(word, f'{options[name]:g}')} is not {wanted}.")
    if options["price_per_hour"] is not None and options["steps"] is None:
        asked.wrong("--price is there and --steps is not.", "Say how many steps the whole training has.")
    memory = asked.attempt(lambda: size_in_bytes(options["memory"], spelled), None)
    also = tuple(asked.attempt(partial(words_of, text, spelled), ()) for text in options["also"])
    asked.check()
    return _filled(
        RehearseRequest,
        options,
        ranks=ranks,
        link=link,
        measured_asked=is_measured(options["link"]),
        memory_bytes=memory,
        check=options["check"] and not options.get("computing_from"),
        also=also,
    )


def _link(options: Mapping[str, Any], most_ranks: int) -> "Link | None":
    """A name, a file, or None for the link of this machine."""
    from scalewise.jobs.rehearse_request import asked_link
    from scalewise.predict.link_file import link_from_file

    text, file = options["link"], options["link_file"]
    if text and file:
        raise BadRequest(f"--link {text} and --link-file {file} are two links.", "Leave one of them out.")
    return link_from_file(file, options["per_node"]) if file else asked_link(text, options["per_node"], most_ranks)


def requested_extrapolation(options: Mapping[str, Any]) -> "ExtrapolateRequest":
    """The request, or a BadRequest with everything that is wrong with it."""
    from scalewise.jobs.extrapolate import ExtrapolateRequest
    from scalewise.jobs.rehearse_request import asked_link
    from scalewise.predict.placement import MOST_NODES, MOST_PER_NODE, read_placement

    asked = Arguments()
    given = options["nodes"]
    nodes = asked.attempt(lambda: _numbers("--nodes", given, MOST_NODES, "nodes", "4,8,16") if given else (), ())
    placements = tuple(asked.attempt(partial(read_placement, text), None) for text in options["placement"])
    per_node = options["per_node"]
    if per_node is not None and not 1 <= per_node <= MOST_PER_NODE:
        asked.wrong(f"{spelled('per_node', per_node)} is no number of GPUs of a node.")
    for batch in options["local_batch"]:
        if not 0 < batch < inf:
            asked.wrong(f"{spelled('local_batch', f'{batch:g}')} is no batch: it must be above 0.")
    link = asked.attempt(lambda: asked_link(options["link"], per_node or 1, 1), None)
    asked.check()
    return _filled(
        ExtrapolateRequest,
        options,
        nodes=nodes,
        placements=tuple(one for one in placements if one is not None),
        models=options["model"],
        local_batches=options["local_batch"],
        link=link,
    )


def _predicted_ranks(option: str, text: str) -> tuple[int, ...]:
    from scalewise.jobs.rehearse_request import MOST_RANKS

    return _numbers(option, text, MOST_RANKS, "ranks", "2,8,64")


def _numbers(option: str, text: str, most: int, things: str, example: str) -> tuple[int, ...]:
    """The numbers in a list, fewest first; raises a BadRequest that names what is none."""
    words = [word.strip() for word in text.split(",")]
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= most]
    if bad:
        said = ", ".join(repr(word[:30]) for word in bad)
        raise BadRequest(
            f"{option} {text[:60]}: {said} {'is' if len(bad) == 1 else 'are'} no number of {things}.",
            f"Give whole numbers from 1 to {most} with commas between, such as {option} {example}.",
        )
    return tuple(sorted({int(word) for word in words}))
