"""The request of `scalewise rehearse`, checked as a whole, and its answer: in the terminal, as JSON or as a page."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from scalewise.cli.request import spelled
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.jobs.arguments import Arguments
from scalewise.jobs.rehearse_request import (
    MOST_RANKS,
    RehearseRequest,
    asked_link,
    is_measured,
    size_in_bytes,
    words_of,
)
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.link import Link
from scalewise.predict.link_file import link_from_file
from scalewise.report.documents.rehearsal_document import rehearsal_document

DONE = 0
FAILED = 2  # some number of ranks has no prediction, or real ranks that were to check one did not get through
DOUBTFUL = 3  # what was measured lies outside the interval that was predicted for it


def requested_rehearsal(script: str, args: Sequence[str], options: Mapping[str, Any]) -> RehearseRequest:
    """The request, or a BadRequest with everything that is wrong with it."""
    asked = Arguments()
    ranks = asked.attempt(lambda: _ranks(options["ranks"]), ())
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
        check=not options["no_check"],
        advice=not options["no_advice"],
        also=also,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
    )


def _ranks(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= MOST_RANKS]
    if bad:
        said = ", ".join(repr(word[:30]) for word in bad)
        raise BadRequest(
            f"--ranks {text[:60]}: {said} {'is' if len(bad) == 1 else 'are'} no number of ranks.",
            f"Give whole numbers from 1 to {MOST_RANKS} with commas between, such as --ranks 2,8,64.",
        )
    return tuple(sorted({int(word) for word in words}))


def _link(options: Mapping[str, Any], most_ranks: int) -> Link | None:
    """A name, a file, or None for the link of this machine."""
    text, file = options["link"], options["link_file"]
    if text and file:
        raise BadRequest(f"--link {text} and --link-file {file} are two links.", "Leave one of them out.")
    return link_from_file(file, options["per_node"]) if file else asked_link(text, options["per_node"], most_ranks)


def present_rehearsal(
    output: Output, answer: RehearsalAnswer, request: RehearseRequest, as_json: bool, html: Path | None
) -> int:
    """Shows it and writes it; the exit code says whether all was predicted and none refuted."""
    from scalewise.jobs.rehearse import concluded

    found = concluded(answer, request)
    if as_json:
        from scalewise.predict.as_json import rehearsal_json

        output.json(rehearsal_json(answer, found))
    else:
        from scalewise.console.terminal import show_document

        show_document(output, rehearsal_document(answer, found))
    if html is not None:
        _write(output, html, answer, found)
    return exit_code(answer)


def exit_code(answer: RehearsalAnswer) -> int:
    """Returns the exit code; missing predictions and failed checks outrank predictions in doubt."""
    if answer.refused or answer.check_failed:
        return FAILED
    return DONE if all(check.inside for check in answer.checks) else DOUBTFUL


def _write(output: Output, path: Path, answer: RehearsalAnswer, found: Conclusions) -> None:
    from scalewise.report.html import write_page

    try:
        write_page(path, rehearsal_document(answer, found))
    except OSError as error:
        raise BadRequest(f"{error.filename} cannot be written: {error.strerror}.", "Choose another path.") from error
    output.say(f"written: {path}")
