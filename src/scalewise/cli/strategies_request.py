"""The request of `scalewise strategies`, read from its options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalewise.cli.request import parsed_ranks, spelled
from scalewise.errors import BadRequest
from scalewise.jobs.rehearse_request import asked_link, is_measured, size_in_bytes
from scalewise.jobs.requests import Arguments
from scalewise.jobs.strategies import StrategiesRequest, chosen_arms
from scalewise.jobs.strategy_predictions import PredictionRequest
from scalewise.plan.words import ranks_problem

RANKS_OF_A_NODE = 8  # where a link has two parts and nothing else is said


def requested_strategies(script: str, args: Sequence[str], options: Mapping[str, Any]) -> StrategiesRequest:
    """The request, or a BadRequest with everything that is wrong with it."""
    asked = Arguments()
    for name in ("limit", "stall"):
        if not 0 < options[name] < float("inf"):
            asked.wrong(f"--{name} {options[name]:g} is not a time.", "Give a number of seconds above 0.")
    problem = ranks_problem(options["ranks"])
    if problem:
        asked.wrong(f"--ranks: {problem}.", "Give two or more.")
    elif options["ranks"] < 2 and not options["predict"]:
        asked.wrong("--ranks 1 leaves nothing to divide.", "Give two or more, or predict others: --predict 8,64.")
    for name in ("steps", "repeat"):
        if options[name] < 1:
            asked.wrong(f"--{name} {options[name]} measures nothing.", "Give 1 or more.")
    only = tuple(filter(None, (word.strip() for word in (options["only"] or "").split(","))))
    asked.attempt(lambda: chosen_arms(only), ())
    predict = asked.attempt(lambda: _prediction(options), None)
    asked.check()
    return StrategiesRequest(
        script=Path(script),
        args=tuple(args),
        ranks=options["ranks"],
        only=only,
        steps=options["steps"],
        repeats=options["repeat"],
        parity=not options["no_parity"],
        causes=not options["no_causes"],
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        predict=predict,
    )


def _prediction(options: Mapping[str, Any]) -> PredictionRequest | None:
    if not options["predict"]:
        alone = [name for name in ("link", "memory", "per_node") if options[name] is not None]
        if alone:
            said = ", ".join(spelled(name) for name in alone)
            raise BadRequest(f"{said} says nothing without --predict.", "Add numbers of ranks: --predict 8,64.")
        return None
    ranks = parsed_ranks(options["predict"], "--predict")
    per_node = options["per_node"] or (RANKS_OF_A_NODE if "+" in (options["link"] or "") else None)
    return PredictionRequest(
        ranks=ranks,
        link=asked_link(options["link"], per_node, max(ranks)),
        measured_asked=is_measured(options["link"]),
        per_node=per_node,
        memory_bytes=size_in_bytes(options["memory"], spelled),
    )
