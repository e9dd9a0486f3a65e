"""Keeps the watcher's own frames out of the tracebacks a script prints when it fails."""

import os
import sys
from types import TracebackType
from typing import Protocol

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class NotesFailure(Protocol):
    """Whoever wants to know which exception ended the script."""

    def failed(self, description: str) -> None:
        """Called before the traceback is printed."""


def keep_tracebacks_clean(listener: NotesFailure) -> None:
    """Puts a step before the exception hook in force; a hook that the script sets later simply replaces it."""
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        listener.failed(f"{kind.__name__}: {error}"[:2000])
        previous(kind, error, strip_error(error, trace))

    sys.excepthook = excepthook


def strip_error(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the watcher's frames; the errors it came from are cleaned in place."""
    seen = {id(error)}
    linked = [error.__cause__, error.__context__]
    while linked:
        other = linked.pop()
        if other is not None and id(other) not in seen:
            seen.add(id(other))
            other.__traceback__ = strip_trace(other.__traceback__)
            linked += [other.__cause__, other.__context__]
    stripped = strip_trace(trace)
    error.__traceback__ = stripped
    return stripped


def strip_trace(trace: TracebackType | None) -> TracebackType | None:
    """The same chain of frames without those whose code lies in this folder."""
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(trace)
        trace = trace.tb_next
    for outer, inner in zip(kept, [*kept[1:], None], strict=False):
        outer.tb_next = inner
    return kept[0] if kept else None
