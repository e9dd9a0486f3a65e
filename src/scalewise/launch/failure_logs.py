"""Gathers from a rank's rows, logs and stacks how it ended."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.launch.log_text import DISK_FULL, EXCEPTION, tail
from scalewise.launch.verdict import RankView
from scalewise.records.codec import decode
from scalewise.records.folder import RunFolder
from scalewise.records.rows import EndRow, TroubleRow
from scalewise.records.wrapped import CONCERNS

_OWN_FRAME = re.compile(r'File ".*/scalewise/watch/(?P<name>[\w/]+)\.py", line \d+, in ')
_ANY_FRAME = re.compile(r'File ".*", line \d+, in ')


@dataclass(frozen=True)
class RankEvidence:
    """Everything known about one rank when the run is over."""

    view: RankView
    stderr: str  # its last part
    stack: tuple[str, ...] = ()  # innermost first
    steps: int = 0
    finished_rows: bool = False  # the watcher saw the interpreter shut down in order, without an exception
    trouble: str = ""  # the watcher could not write its records
    raised_by: tuple[str, ...] = ()  # concerns of the watcher whose error may have ended the script
    passes_without_step: int = 0  # backward passes, if no optimizer stepped


def gather(view: RankView, folder: RunFolder, stack: tuple[str, ...]) -> RankEvidence:
    """The evidence that the rank has left in the run's folder."""
    ended, steps, trouble, passes = False, view.steps, "", 0
    stderr = tail(folder.stderr(view.rank))
    raised_by = raised_in_watcher(stderr)
    for row in _last_rows(folder.rank(view.rank)):
        if isinstance(row, EndRow):
            ended, steps, passes = row.exception is None, max(steps, row.steps), row.passes_without_step
        elif row.raised_by:
            raised_by = row.raised_by
        elif DISK_FULL.search(row.error):
            trouble = row.error
    return RankEvidence(view, stderr, stack, steps, ended, trouble, raised_by, passes)


def _last_rows(path: Path) -> Iterator[EndRow | TroubleRow]:
    """Yields the rows about the end of a rank from its file's last part; the whole file may be far too long to read."""
    for line in tail(path).split("\n")[:-1]:
        try:
            data = json.loads(line)
            kind = data.get("kind") if isinstance(data, dict) else None
            if kind == "end":
                yield decode(EndRow, data)
            elif kind == "trouble":
                yield decode(TroubleRow, data)
        except (ValueError, RecursionError):
            continue


def raised_in_watcher(text: str) -> tuple[str, ...]:
    """The concern of the watcher in whose function a traceback ends that the script or its launcher printed."""
    own: list[str] = []
    concern: tuple[str, ...] = ()
    before = ""
    for line in text.splitlines():
        frame = _OWN_FRAME.search(line)
        if "Traceback (most recent call last)" in line and "above exception" not in before:
            concern = ()  # the script has caught the earlier error
            own.clear()
        elif own and line.rstrip().endswith("*args, **kwargs)"):
            own.clear()  # only passes the call on
        elif frame:
            own.append(frame.group("name"))
        elif _ANY_FRAME.search(line):
            own.clear()
        elif own and EXCEPTION.match(line):
            concern = (next((name for name in reversed(own) if name in CONCERNS), own[-1]),)
            own.clear()
        before = line if line.strip() else before
    return concern
