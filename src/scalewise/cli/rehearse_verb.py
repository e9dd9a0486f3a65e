"""What `scalewise rehearse` was asked, checked as a whole, and its answer: in the terminal, as JSON or as a page."""

import re
import shlex
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any

from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.predict.answer import Answer
from scalewise.predict.catalogue import named_link
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.link import Link
from scalewise.predict.link_file import link_from_file

DONE = 0
FAILED = 2  # some number of ranks has no prediction, or real ranks that were to check one did not get through
DOUBTFUL = 3  # what was measured lies outside the interval that was predicted for it

MEASURED = "measured"
MOST_RANKS = 65_536  # more is a slip of the finger
LEAST_WITHOUT_UNIT = 2**20  # below it, bytes were hardly meant
_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def requested(script: str, args: Sequence[str], options: Mapping[str, Any]) -> RehearseRequest:
    """The request, or a BadRequest with everything that is wrong with it."""
    problems: list[tuple[str, str]] = []
    ranks = _ranks(options["ranks"], problems)
    link = _link(options, max(ranks, default=1), problems)
    if not Path(script).exists():
        problems.append((f"The script {script} does not exist.", "Check the path."))
    problems += [
        (f"--{name.replace('_', '-')} {options[name]:g} is not {_wanted(options[name])}.", "")
        for name in ("limit", "stall", "price", "steps", "per_node")
        if options[name] is not None and not 0 < options[name] < inf
    ]
    if options["price"] is not None and options["steps"] is None:
        problems.append(("--price is there and --steps is not.", "Say how many steps the whole training has."))
    memory = _bytes(options["memory"], problems)
    also = tuple(_arguments(text, problems) for text in options["also"])
    if problems:
        hints = dict.fromkeys(hint for _, hint in problems if hint)
        raise BadRequest(" ".join(sentence for sentence, _ in problems), "\n".join(hints))
    return RehearseRequest(
        script=Path(script),
        args=tuple(args),
        ranks=ranks,
        link=link,
        measured_asked=(options["link"] or "").strip().lower() == MEASURED,
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


def _wanted(number: float) -> str:
    return "above 0" if isfinite(number) else "a finite number above 0"


def _ranks(text: str, problems: list[tuple[str, str]]) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= MOST_RANKS]
    if bad:
        said = ", ".join(repr(word[:30]) for word in bad)
        problems.append(
            (
                f"--ranks {text[:60]}: {said} {'is' if len(bad) == 1 else 'are'} no number of ranks.",
                f"Give whole numbers from 1 to {MOST_RANKS} with commas between, such as --ranks 2,8,64.",
            )
        )
        return ()
    return tuple(sorted({int(word) for word in words}))


def _link(options: Mapping[str, Any], most_ranks: int, problems: list[tuple[str, str]]) -> Link | None:
    """A name, a file, or None for the link of this machine."""
    text, file, per_node = options["link"], options["link_file"], options["per_node"]
    if text and file:
        problems.append((f"--link {text} and --link-file {file} are two links.", "Leave one of them out."))
        return None
    if not file and text and (text.endswith(".toml") or "/" in text):
        file = Path(text)
    try:
        if file:
            return link_from_file(Path(file), per_node)
        if text is None or text.strip().lower() == MEASURED:
            return None
        return named_link(text, per_node, most_ranks)
    except BadRequest as error:
        problems.append((error.sentence, error.hint))
        return None


def _arguments(text: str, problems: list[tuple[str, str]]) -> tuple[str, ...]:
    """As a shell would split them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        problems.append(
            (
                f"--also {text[:60]} cannot be split into arguments: {str(error).lower()}.",
                "Close every quotation mark and write a backslash twice, as a shell wants it.",
            )
        )
        return ()


def _bytes(text: str | None, problems: list[tuple[str, str]]) -> float | None:
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        problems.append((f"--memory {text!r} is not a size.", "Write it as 80GiB or 24GB."))
        return None
    size = float(found[1]) * _UNITS[found[2]]
    if not found[2] and size < LEAST_WITHOUT_UNIT:
        problems.append(
            (f"--memory {text.strip()} has no unit, and no device has {found[1]} bytes.", f"Write it as {found[1]}GiB.")
        )
        return None
    return size


def give(output: Output, answer: Answer, request: RehearseRequest, as_json: bool, html: Path | None) -> int:
    """Shows it and writes it; the exit code says whether all was predicted and none refuted."""
    from scalewise.jobs.rehearse import concluded

    found = concluded(answer, request)
    if as_json:
        from scalewise.predict.as_json import rehearsal_json

        output.json(rehearsal_json(answer, found))
    else:
        from scalewise.console.rehearse_view import show_rehearsal

        show_rehearsal(output, answer, found)
        _show_words(output, answer)
    if html is not None:
        _write(output, html, answer, found)
    return exit_code(answer)


def exit_code(answer: Answer) -> int:
    """What is not there weighs more than what is in doubt."""
    if answer.refused or answer.check_failed:
        return FAILED
    return DONE if all(check.inside for check in answer.checks) else DOUBTFUL


def _show_words(output: Output, answer: Answer) -> None:
    for one in answer.refused:
        if one.words:
            output.show()
            output.show(f"What the script itself said last as one of {one.ranks} ranks:", style="bold")
            for line in one.words:
                output.show(f"    {line}")


def _write(output: Output, path: Path, answer: Answer, found: Conclusions) -> None:
    from scalewise.report.rehearse_page import write_rehearse_page

    try:
        write_rehearse_page(path, answer, found)
    except OSError as error:
        raise BadRequest(f"{error.filename} cannot be written: {error.strerror}.", "Choose another path.") from error
    output.say(f"written: {path}")
