"""The doctor's notes of one rank: gathered in memory, written by a thread, so that a rank that stands still has told.

The thread writes whole lines into a file of their own; torch releases the interpreter
lock while it waits, so notes of a rank that hangs in a collective still reach the disk.
"""

import atexit
import json
import os
import threading
import time
from typing import Any

from scalewise.records.codec import encode
from scalewise.records.folder import RunFolder
from scalewise.records.notes import NOWHERE
from scalewise.records.rows import ROW_KINDS
from scalewise.watch.examination.places import Places
from scalewise.watch.recorder import Recorder

WRITE_SECONDS = 0.1
MOST_NOTES = 300_000  # of one rank: a script that runs for days is known by then
_KIND_OF = {kind: name for name, kind in ROW_KINDS.items()}


class Notebook:
    """One per process; notes are made by the script's main thread."""

    def __init__(self, recorder: Recorder, folder: RunFolder) -> None:
        self.recorder = recorder
        self.places = Places(self.row)
        self._folder = folder
        self._notes: list[list[Any]] = []
        self._lines: list[str] = []
        self._left = MOST_NOTES
        self._descriptor, self._rank = -1, NOWHERE
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def on(self) -> bool:
        """Whether this process is still to be examined."""
        return self.recorder.on and self._left > 0

    def open(self) -> None:
        """Begins to write now and then."""
        self._thread = threading.Thread(target=self._keep_writing, name="scalewise-notes", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        os.register_at_fork(before=self._writing.acquire, after_in_parent=self._writing.release)
        os.register_at_fork(after_in_child=self._leave)

    def note(self, name: str, *values: Any, place: int | None = None) -> None:
        """A note of `records.notes` by its name; its place is the script's line that is being run, unless given."""
        if self._left > 0:
            self._left -= 1
            where = self.places.here() if place is None else place
            self._notes.append([name, time.perf_counter_ns(), where, *values])

    def row(self, row: object) -> None:
        """A row of `records.examination`, behind the notes before it."""
        values = encode(row)
        del values["schema"]
        self._lines.append(json.dumps({"kind": _KIND_OF[type(row)], **values}, separators=(",", ":")))

    def write(self) -> None:
        """Puts on disk what waits; before a call that may never return, and from the thread."""
        with self._writing:
            lines, self._lines = self._lines, []
            # The main thread may append meanwhile: what is counted here is there, and only that is taken away.
            count = len(self._notes)
            if count:
                notes = self._notes[:count]
                del self._notes[:count]
                lines.append(json.dumps({"kind": "notes", "notes": notes}, separators=(",", ":")))
            if lines:
                self._write("\n".join(lines) + "\n")

    def broke(self, where: str, error: BaseException) -> None:
        """A hook failed: the script goes on, the report says what is missing."""
        self.recorder.broke(f"examination: {where}", error)

    def close(self) -> None:
        """At interpreter exit."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)
        self.write()

    def _keep_writing(self) -> None:
        while not self._over.wait(WRITE_SECONDS):
            self.write()

    def _write(self, text: str) -> None:
        """A full or vanished disk ends the notes, never the script."""
        try:
            if self._rank != self.recorder.rank:  # a script that starts its ranks itself learns its number late
                self._rank = self.recorder.rank
                flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
                self._descriptor = os.open(self._folder.examination(self._rank), flags, 0o644)
            data = text.encode()
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._left = 0

    def _leave(self) -> None:
        """In a forked child: a DataLoader's worker has notes of its own at most."""
        self._writing = threading.Lock()
        self._left = 0
        self._notes, self._lines = [], []
        self._thread = None
