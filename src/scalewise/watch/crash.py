"""Keeps the watcher's own frames out of the tracebacks a script prints when it fails, and finds whose failure it is."""

import contextlib
import linecache
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from types import TracebackType
from typing import Protocol, TypeVar

from scalewise.records.wrapped import CONCERNS, Concern

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FOR_SCRIPT = "_scalewise_raises_for_the_script"
# How Python complains of a call that does not fit the function; the name is that of the function which was wrapped.
_BAD_CALL = re.compile(r"^([\w.]+)\(\) (?:missing|got|takes)\b")
_PASSED_ON = "*args, **kwargs)"
_SEAMS = "seams"
Raised = TypeVar("Raised", bound=BaseException)


class NotesFailure(Protocol):
    """A receiver of the exception that ended the script."""

    def failed(self, description: str) -> None:
        """Takes a description of the exception, before the traceback is printed."""

    def raised(self, concerns: tuple[str, ...], error: BaseException) -> None:
        """Takes an exception that seems to be the watcher's own, with the parts of it that may have raised it."""


def keep_tracebacks_clean(listener: NotesFailure, removable: Sequence[Concern] = ()) -> None:
    """Puts a step before the current exception hook; a hook that the script sets later simply replaces it.

    `removable`: the concerns at work here that the run could do without.
    """
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        listener.failed(f"{kind.__name__}: {error}"[:2000])
        with contextlib.suppress(Exception):  # whatever happens here, the script's exception is shown
            concerns = raised_by(error, removable)
            if concerns:
                listener.raised(concerns, error)
        previous(kind, error, strip_error(error, trace))

    sys.excepthook = excepthook


def for_the_script(error: Raised) -> Raised:
    """Marks an exception that torch would raise here as well: the script is to blame for it, not the watcher."""
    setattr(error, _FOR_SCRIPT, True)
    return error


def raised_by(error: BaseException, removable: Sequence[Concern] = ()) -> tuple[str, ...]:
    """The concerns of the watcher that may have raised this error, or one of its causes; empty if none has.

    Only a run without them can say for sure. If arguments do not fit a wrapper, the caller's frame is the last, and the
    error names the wrapped function.
    """
    for one in _with_causes(error):
        if isinstance(one, KeyboardInterrupt) or hasattr(one, _FOR_SCRIPT):
            continue
        steps = list(_steps(one.__traceback__))
        own = list(takewhile(_is_ours, reversed(steps)))
        said = _BAD_CALL.match(str(one)) if isinstance(one, TypeError) else None
        if own and (said is not None or not _passes_on(own[0])):
            files = [step.tb_frame.f_code.co_filename for step in own]
            names = [name.removeprefix(_HERE).removesuffix(".py") for name in files]
            beside = [name for name in names if name != _SEAMS]  # a seam itself fits every call
            if beside or said is None:
                return (next((name for name in beside if name in CONCERNS), names[0]),)
        end = "" if said is None else f".{said.group(1)}"
        suspects = tuple(one.name for one in removable if end and any(name.endswith(end) for name in one.wraps))
        if suspects:
            return suspects
    return ()


def strip_error(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the watcher's frames; the tracebacks of the error's causes are cleaned in place."""
    for other in _with_causes(error):
        if other is not error:
            other.__traceback__ = strip_trace(other.__traceback__)
    stripped = strip_trace(trace)
    error.__traceback__ = stripped
    return stripped


def strip_trace(trace: TracebackType | None) -> TracebackType | None:
    """The same chain of frames without those whose code lies in this folder."""
    kept = [step for step in _steps(trace) if not _is_ours(step)]
    for outer, inner in zip(kept, [*kept[1:], None], strict=False):
        outer.tb_next = inner
    return kept[0] if kept else None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all errors it came from, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        step, trace = trace, trace.tb_next
        yield step


def _is_ours(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(_HERE)


def _passes_on(step: TracebackType) -> bool:
    """Returns whether this frame was calling torch with the script's own arguments: C code has no frame to blame."""
    code = step.tb_frame.f_code
    line, end, first, last = list(code.co_positions())[step.tb_lasti // 2]
    if line is None or line != end or first is None or last is None:
        return False
    return linecache.getline(code.co_filename, line)[first:last].endswith(_PASSED_ON)
