"""The request of `scalewise parity`, read from its options."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalewise.cli.request import examined_on_cpu
from scalewise.errors import BadRequest
from scalewise.jobs.parity_runs import MOST_STEPS, ParityRequest
from scalewise.plan.words import PLAIN, parse_changes


def requested_parity(script: str, args: Sequence[str], options: Mapping[str, Any]) -> ParityRequest:
    """The request, or a BadRequest that says what is wrong with it."""
    on_cpu = examined_on_cpu(options)
    if options["ranks"] < 2 and options["against"] is None and not options["resume"]:
        raise BadRequest("--ranks 1 compares one rank with itself.", "Give two or more.")
    if not 1 <= options["steps"] <= MOST_STEPS:
        raise BadRequest(f"--steps {options['steps']} is no number of steps.", f"Give one from 1 to {MOST_STEPS}.")
    if options["resume"] and options["against"] is not None:
        raise BadRequest("--resume and --against are two questions.", "Ask one of them.")
    return ParityRequest(
        script=Path(script),
        args=tuple(args),
        ranks=options["ranks"],
        steps=options["steps"],
        on_cpu=on_cpu,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        changes=parse_changes(options.get("change") or PLAIN),
        causes=not options["no_causes"],
        against=options["against"],
        resume=options["resume"],
        resume_args=tuple(shlex.split(options["resume_args"] or "")),
    )
