"""Reads from a rank's logs and stacks how it ended."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalewise.launch.verdict import RankView
from scalewise.records.codec import decode
from scalewise.records.folder import RunFolder
from scalewise.records.rows import EndRow, TroubleRow
from scalewise.records.wrapped import CONCERNS

LAST_LINES = 20
MOST_LETTERS = 400  # of one line: a tensor in an exception can be thousands long
_TAIL_BYTES = 64 * 1024

SECONDARY = re.compile(
    r"Connection (reset|closed|refused)|Timed out|timed out waiting|Broken pipe|[Ss]ocket closed"
    r"|Connection was likely closed|failed to recv, got 0 bytes|communicator was aborted|ncclRemoteError",
)
OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|CUDA out of memory|OutOfMemoryError|^(\[rank\d+\]: ?)?MemoryError|std::bad_alloc"
    r"|Cannot allocate memory|CUBLAS_STATUS_ALLOC_FAILED",
    re.MULTILINE,
)
PORT_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
DISK_FULL = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded")
MODULE_MISSING = re.compile(r"No module named '?([\w.]+)'?")
_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b.*)")
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_THREAD = re.compile(r"^(Current thread|Thread) 0x")
_WAITING_FILES = ("/torch/distributed/", "/torch/autograd/graph.py", "/torch/futures/", "/torch/cuda/streams.py")
_OWN_FILES = ("/scalewise/watch/",)
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


def tail(path: Path) -> str:
    """The last part of a log; empty if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def last_lines(text: str) -> tuple[str, ...]:
    """The last lines that are not empty, each shortened to a readable length."""
    lines = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
    return tuple(shortened(line, MOST_LETTERS) for line in lines)


def shortened(text: str, most: int) -> str:
    """The text, shortened in its middle if it is longer than `most` letters: beginning and end say most."""
    if len(text) <= most:
        return text
    cut = f" ... ({len(text) - most:,} letters left out) ... "
    return f"{text[: most // 2]}{cut}{text[len(text) - most // 2 :]}"


def exception_line(text: str) -> str:
    """The line that names the exception with which a traceback ends; empty if there is none."""
    for line in reversed(text.splitlines()):
        found = _EXCEPTION.match(line)
        if found:
            return shortened(found.group(1).strip(), MOST_LETTERS)
    return ""


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
        elif own and _EXCEPTION.match(line):
            concern = (next((name for name in reversed(own) if name in CONCERNS), own[-1]),)
            own.clear()
        before = line if line.strip() else before
    return concern


def blames_another(stderr: str) -> bool:
    """Tells whether the rank died because another one had gone: its exception is about the connection."""
    return bool(SECONDARY.search(exception_line(stderr)))


def parse_stack(text: str) -> tuple[str, ...]:
    """The last dump of the thread that was asked, innermost frame first, without the watcher's own frames."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            blocks.append((line.startswith("Current"), []))
        elif blocks and _FRAME.match(line):
            blocks[-1][1].append(line.strip())
    asked = [frames for current, frames in blocks if current] or [frames for _, frames in blocks]
    if not asked:
        return ()
    frames = [line for line in asked[-1] if not any(own in line for own in _OWN_FILES)]
    return tuple(line for line in frames if not line.startswith('File "<string>"'))


def waits_for_others(stack: Sequence[str]) -> bool:
    """Tells whether the innermost Python frame is a collective or a backward pass, which end only with other ranks."""
    return bool(stack) and any(part in stack[0] for part in _WAITING_FILES)
