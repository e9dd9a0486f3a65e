"""The doctor's notes of one rank: gathered in memory and written by a thread, so that a rank that hangs leaves them.

The thread writes whole lines into a file of its own; torch releases the interpreter lock while it waits, so notes of a
rank that hangs in a collective still reach the disk.
"""

import atexit
import contextlib
import json
import os
import threading
import weakref
from time import perf_counter_ns  # bound now: the examination watches the script read the clock
from typing import Any

from scalewise.records.codec import encode
from scalewise.records.folder import RunFolder
from scalewise.records.notes import NOWHERE
from scalewise.records.rows import ROW_KINDS
from scalewise.watch.examination.places import Places
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

WRITE_SECONDS = 0.1
WRITE_AGAIN_NS = 5_000_000  # a write before a call that may block is not repeated sooner
MOST_JOIN_SECONDS = 2.0  # a disk that does not answer must not keep the script
MOST_NOTES = 300_000  # of one rank: a script that runs for days is known by then
_KIND_OF = {kind: name for name, kind in ROW_KINDS.items()}


class Notebook:
    """The notes of one process; they are made by the script's threads, mostly the main one."""

    def __init__(self, recorder: Recorder, folder: RunFolder) -> None:
        self.recorder = recorder
        self.places = Places(self.row)
        self._folder = folder
        self._notes: list[list[Any]] = []
        self._lines: list[str] = []
        self._left = MOST_NOTES
        self._descriptor, self._rank = -1, NOWHERE
        # A signal handler of the script may call this while the script's own thread writes.
        self._writing = threading.RLock()
        self._written_ns = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._writes_apart = False

    @property
    def on(self) -> bool:
        """Returns whether this process is still to be examined."""
        return self.recorder.on and self._left > 0

    def open(self) -> None:
        """Starts the writing thread, and registers the writing at exit and around forks."""
        self._start()
        atexit.register(self.close)
        os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._leave)
        self._write_before_exit()

    def note(self, name: str, *values: Any, place: int | None = None) -> None:
        """Takes a note of `records.notes` by its name; its place is the script's line that is running, unless given."""
        if self._left > 0:
            self._left -= 1
            try:
                where = self.places.here() if place is None else place
                self._notes.append([name, perf_counter_ns(), where, *values])
            except Exception as error:
                self.broke(name, error)

    def row(self, row: object) -> None:
        """Adds a row of `records.examination`, after the rows before it."""
        self._lines.append(_line(row))

    def aside(self, row: object) -> None:
        """Writes a row of a forked child, which otherwise writes nothing: one write of one whole line."""
        self._write(_line(row) + "\n")

    def write(self) -> None:
        """Writes what waits to disk: called before a call that may never return, and from the thread."""
        with self._writing:
            # The script may add meanwhile: only what is counted here is taken away. Notes are counted first, so that
            # the places they name are among the rows.
            notes = _take(self._notes)
            lines = _take(self._lines)
            if notes:
                lines.append(json.dumps({"kind": "notes", "notes": notes}, separators=(",", ":")))
            if lines:
                self._write("\n".join(lines) + "\n")
            self._written_ns = perf_counter_ns()

    def write_if_due(self) -> None:
        """Writes what waits, unless the last write was a moment ago: then the thread writes soon."""
        if perf_counter_ns() - self._written_ns > WRITE_AGAIN_NS:
            self.write()

    def broke(self, where: str, error: BaseException) -> None:
        """Notes that a hook failed: the script goes on, and the report says what is missing."""
        self.recorder.broke(f"examination: {where}", error)

    def close(self) -> None:
        """Writes the rest when the interpreter exits."""
        self._stop()
        self.write()

    def _start(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="scalewise-notes", daemon=True)
        with contextlib.suppress(RuntimeError):  # too late: the interpreter is exiting, and `close` writes
            self._thread.start()

    def _stop(self) -> None:
        self._over.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(MOST_JOIN_SECONDS)
        self._thread = None

    def _keep_writing(self) -> None:
        over = self._over
        while not over.wait(WRITE_SECONDS):
            self.write()

    def _write(self, text: str) -> None:
        """Writes a text; a full or vanished disk ends the notes, never the script."""
        try:
            if self._rank != self.recorder.rank:  # a script that starts its ranks itself learns its number late
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC
                self._descriptor = os.open(self._folder.examination(self.recorder.rank), flags, 0o644)
                self._rank = self.recorder.rank
            data = text.encode()
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._left = 0

    def _write_before_exit(self) -> None:
        """Writes before `os._exit`, as a script that ends with it runs no exit handler."""
        seam(os, "_exit").before(self, self._exits)

    def _exits(self, args: Any, kwargs: Any) -> None:
        self.write()

    def _hold(self) -> None:
        """Stops the thread before a fork: Python warns of forks in a process with threads, and this one is ours."""
        self._writes_apart = self._thread is not None
        self._stop()
        self._writing.acquire()

    def _let_go(self) -> None:
        self._writing.release()
        if self._writes_apart:
            self._start()

    def _leave(self) -> None:
        """Ends the notes in a forked child: a DataLoader's worker writes at most rows of its own."""
        self._writing = threading.RLock()
        self._left = 0
        self._notes, self._lines = [], []
        self._thread = None


class ObjectNumbers:
    """A number for each object, in the order they were first met; told apart by identity, and never kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = 0

    def of(self, thing: Any) -> int | None:
        """The number of an object; None if it has none yet."""
        held = self._known.get(id(thing))
        # A dead object's identity may have been given to another one.
        return held[1] if held is not None and held[0]() is thing else None

    def give(self, thing: Any, number: int | None = None) -> int:
        """Gives an object a new number, or the one it shares with another."""
        if number is None:
            number = self._next
            self._next += 1
        self._known[id(thing)] = (weakref.ref(thing), number)
        return number


def _line(row: object) -> str:
    values = encode(row)
    del values["schema"]
    return json.dumps({"kind": _KIND_OF[type(row)], **values}, separators=(",", ":"))


def _take(waiting: list[Any]) -> list[Any]:
    """Takes out what is in the list now, while another thread may still add to it."""
    count = len(waiting)
    taken = waiting[:count]
    del waiting[:count]
    return taken
