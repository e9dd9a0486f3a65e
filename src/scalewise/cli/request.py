"""What a person asked `scalewise run` for, as a suite: a script of their own, or a suite by name or file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewise.errors import BadRequest
from scalewise.plan.experiment import Suite, changed
from scalewise.records.spec import Change, Nodes

if TYPE_CHECKING:
    from scalewise.results.run import LoadedSuite


def requested_suite(what: str, args: Sequence[str], options: Mapping[str, Any]) -> Suite:
    """A `.py` file is a script; anything else must be a suite."""
    if Path(what).suffix == ".py" or (Path(what).is_file() and Path(what).suffix != ".toml"):
        return _script(Path(what), args, options)
    return _suite(what, args, options)


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


def requested_sides(a: Path, b: Path) -> "tuple[LoadedSuite, LoadedSuite]":
    """What is to be compared; two runs that took turns with each other stand for all the repeats of their arms."""
    from scalewise.records.spec import ARM
    from scalewise.results.load import load

    sides = load(a), load(b)
    chosen = [side.runs[0] for side in sides if len(side.runs) == 1 and side.runs[0].folder == side.path]
    rings = {(run.folder.resolve().parent, run.spec.turns and run.spec.turns.ring) for run in chosen}
    if len(chosen) < 2 or len(rings) > 1 or chosen[0].spec.turns is None:
        return sides
    together = load(a.resolve().parent).runs
    one, two = (
        replace(side, runs=tuple(other for other in together if other.spec.key(ARM) == run.spec.key(ARM)))
        for side, run in zip(sides, chosen, strict=True)
    )
    return one, two


def _script(script: Path, args: Sequence[str], options: Mapping[str, Any]) -> Suite:
    from scalewise.plan.adhoc import script_suite
    from scalewise.plan.words import parse_ranks

    if options["full"]:
        raise BadRequest(f"--full is for a suite; {script} is a script.", "It is run as it is in any case.")
    if options.get("trace") is not None and not options["trace"].resolve().parent.is_dir():
        raise BadRequest(f"The folder of --trace {options['trace']} does not exist.", "Make it first.")
    given = {
        "ranks": parse_ranks(options["ranks"]) if options["ranks"] is not None else None,
        "repeat": options["repeat"],
        "device": options["device"],
        "launcher": options["launcher"],
        "mode": "python" if options["plain"] else None,
        "devices": options.get("devices"),
        "changes": _changes(options["change"], options.get("emulate_link")),
        "limit_seconds": _seconds("--limit", options["limit"]),
        "stall_seconds": _seconds("--stall", options["stall"]),
        "turns": options["turns"],
        "inspect": options["inspect"] or options.get("trace") is not None,
        "in_place": options.get("in_place"),
        "steps": options.get("steps"),
        "env": _environment(options.get("env") or ()),
    }
    return script_suite(script, args, **{name: value for name, value in given.items() if value is not None})


def _environment(settings: Sequence[str]) -> dict[str, str]:
    for one in settings:
        if not one.partition("=")[0].isidentifier() or "=" not in one:
            raise BadRequest(f"--env {one} sets no variable.", "Write it as --env NAME=VALUE.")
    return {name: value for name, _, value in (one.partition("=") for one in settings)}


def _changes(texts: Sequence[str], link: str | None) -> tuple[tuple[Change, ...], ...] | None:
    """The arms: as it is, and each change; an emulated link is part of all of them."""
    from scalewise.plan.words import parse_changes, parse_link

    everywhere: tuple[Change, ...] = ()
    if link is not None:
        everywhere = (parse_link(link, f"--emulate-link {link}", "Write it as --emulate-link 1ms,1GB/s."),)
    arms = tuple(parse_changes(text) for text in texts)
    if everywhere and any(one.name == everywhere[0].name for arm in arms for one in arm):
        raise BadRequest("A link is emulated by --emulate-link and by --change, too.", "Say it once.")
    return tuple(everywhere + arm for arm in ((), *arms)) if arms or everywhere else None


def _suite(name: str, args: Sequence[str], options: Mapping[str, Any]) -> Suite:
    from scalewise.plan.find import find_suite

    path = find_suite(name)
    words = (
        "plain",
        "devices",
        "change",
        "emulate_link",
        "turns",
        "inspect",
        "trace",
        "limit",
        "stall",
        "steps",
        "env",
    )
    for option in words:
        if options.get(option):
            raise BadRequest(
                f"--{option.replace('_', '-')} is for a script; {name} is a suite.",
                f"Say it in the suite's file: {path}.",
            )
    if args:
        raise BadRequest(f"{args[0]!r} is an argument for a script; {name} is a suite.", f"Put it into {path}.")
    from scalewise.plan.suite import load_suite
    from scalewise.plan.words import parse_ranks

    return changed(
        load_suite(path),
        ranks=parse_ranks(options["ranks"]) if options["ranks"] is not None else None,
        repeat=_at_least_one(options["repeat"]),
        device=options["device"],
        launcher=options["launcher"],
        full=options["full"],
        in_place=bool(options.get("in_place")),
    )


def _at_least_one(repeat: int | None) -> int | None:
    if repeat is not None and repeat < 1:
        raise BadRequest(f"--repeat {repeat} measures nothing.", "Give a number of repeats of at least 1.")
    return repeat


def _seconds(option: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise BadRequest(f"{option} {seconds:g} is not a time.", "Give a number of seconds above 0.")
    return seconds
