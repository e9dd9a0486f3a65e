"""The request for a rehearsal, and the functions that read its texts."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.requests import ScriptRequest, Spelled
from scalewise.predict.answer import Scaling
from scalewise.predict.catalogue import named_link
from scalewise.predict.link import Link
from scalewise.predict.link_file import link_from_file

MEASURED = "measured"
MOST_RANKS = 65_536  # a larger number is a typing mistake
LEAST_WITHOUT_UNIT = 2**20  # a smaller number without a unit hardly means bytes
_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class RehearseRequest(ScriptRequest):
    """The script of a rehearsal, its numbers of ranks, its link and other options."""

    stall_seconds: float = 20.0
    ranks: tuple[int, ...] = (2, 8, 64)  # fewest first
    link: Link | None = None  # None: as measured here
    measured_asked: bool = False  # whether the measured link is used even for ranks that do not fit here
    per_node: int | None = None
    scaling: Scaling = "script"
    memory_bytes: float | None = None
    price_per_hour: float | None = None  # of one rank's device
    steps: int | None = None  # of the whole training, for its cost
    check: bool = True
    advice: bool = True
    also: tuple[tuple[str, ...], ...] = ()  # further arguments, for rehearsals with other batches
    computing_from: Path | None = None  # a record of computing on another machine, used instead of rehearsals here
    keep_computing: Path | None = None  # the file for such a record of the rehearsals here


def asked_link(text: str | None, per_node: int | None, most_ranks: int) -> Link | None:
    """The link of that name or in that file; None for the link of this machine."""
    if text and (text.endswith(".toml") or "/" in text):
        return link_from_file(Path(text), per_node)
    if text is None or is_measured(text):
        return None
    return named_link(text, per_node, most_ranks)


def is_measured(text: str | None) -> bool:
    """Tells whether the text asks for the measured link even for ranks that do not fit here."""
    return (text or "").strip().lower() == MEASURED


def words_of(text: str, spelled: Spelled) -> tuple[str, ...]:
    """Splits a text into words as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequest(
            f"{spelled('also', text[:60])} cannot be split into arguments: {str(error).lower()}.",
            "Close every quotation mark and write a backslash twice, as a shell wants it.",
        ) from None


def size_in_bytes(text: str | None, spelled: Spelled) -> float | None:
    """Returns a size such as `80GiB` or `24GB` in bytes; None without a text."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        raise BadRequest(f"{spelled('memory', repr(text))} is not a size.", "Write it as 80GiB or 24GB.")
    size = float(found[1]) * _UNITS[found[2]]
    if not found[2] and size < LEAST_WITHOUT_UNIT:
        raise BadRequest(
            f"{spelled('memory', text.strip())} has no unit, and no device has {found[1]} bytes.",
            f"Write it as {found[1]}GiB.",
        )
    return size
