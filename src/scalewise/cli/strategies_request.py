"""The request of `scalewise strategies`, read from its options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalewise.jobs.requests import Arguments
from scalewise.jobs.strategies import StrategiesRequest, chosen_arms
from scalewise.plan.words import ranks_problem


def requested_strategies(script: str, args: Sequence[str], options: Mapping[str, Any]) -> StrategiesRequest:
    """The request, or a BadRequest with everything that is wrong with it."""
    asked = Arguments()
    for name in ("limit", "stall"):
        if not 0 < options[name] < float("inf"):
            asked.wrong(f"--{name} {options[name]:g} is not a time.", "Give a number of seconds above 0.")
    problem = ranks_problem(options["ranks"])
    if problem:
        asked.wrong(f"--ranks: {problem}.", "Give two or more.")
    elif options["ranks"] < 2:
        asked.wrong("--ranks 1 leaves nothing to divide.", "Give two or more; one rank is measured in any case.")
    for name in ("steps", "repeat"):
        if options[name] < 1:
            asked.wrong(f"--{name} {options[name]} measures nothing.", "Give 1 or more.")
    only = tuple(filter(None, (word.strip() for word in (options["only"] or "").split(","))))
    asked.attempt(lambda: chosen_arms(only), ())
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
    )
