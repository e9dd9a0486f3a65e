"""What a person asked `scalewise rehearse` for, checked as a whole before anything runs."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from scalewise.errors import BadRequest
from scalewise.plan.experiment import DeviceChoice
from scalewise.predict.answer import Scaling
from scalewise.predict.catalogue import named_link
from scalewise.predict.link import Link
from scalewise.predict.link_file import link_from_file

MEASURED = "measured"
MOST_RANKS = 65_536  # more is a slip of the finger
LEAST_WITHOUT_UNIT = 2**20  # below it, bytes were hardly meant
_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class Request:
    """A script, numbers of ranks, and a link."""

    script: Path
    args: tuple[str, ...]
    ranks: tuple[int, ...]  # fewest first
    link: Link | None  # None: as measured here
    measured_asked: bool  # that the link is to be the measured one even for ranks that do not fit here
    per_node: int | None
    scaling: Scaling
    memory_bytes: float | None
    price_per_hour: float | None  # of one rank's device
    steps: int | None  # of the whole training, for its cost
    check: bool
    advice: bool
    also: tuple[tuple[str, ...], ...]  # further arguments, for rehearsals with other batches
    device: DeviceChoice
    limit_seconds: float
    stall_seconds: float
    out: Path
    in_place: bool = False


def requested(script: str, args: Sequence[str], options: Mapping[str, Any]) -> Request:
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
    return Request(
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
