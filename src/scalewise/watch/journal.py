"""Writes the rank's append-only file: stamps of events, and rows, which count as noted when they are written."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

from scalewise.records.codec import encode
from scalewise.records.events import TIME_MASK
from scalewise.records.folder import RunFolder
from scalewise.records.rows import ROW_KINDS, TroubleRow

# Events wait in memory at most this long before the next step writes them: one system call then serves hundreds of
# steps of a fast script, and a slow script writes each step at once.
FLUSH_NS = 50_000_000
MOST_TROUBLES = 20

_KIND_OF = {kind: name for name, kind in ROW_KINDS.items()}


class Journal:
    """The rank's file, opened by the first write.

    Processes that never train leave no file; the first process to train owns it.
    """

    def __init__(self, folder: RunFolder, rank: int) -> None:
        self.events: list[Any] = []  # always the same list: hooks keep a reference to its append
        self.troubles = 0
        self.folder = folder
        self.rank = rank
        self._descriptor = -1
        self._broken = False
        self._lines: list[str] = []
        self._flushed_ns = 0

    def row(self, row: object) -> None:
        """Adds a record, after the events noted before it."""
        self._gather_events()
        values = encode(row)
        del values["schema"]  # a reader takes a line without a version as its own
        self._lines.append(json.dumps({"kind": _KIND_OF[type(row)], **values}, separators=(",", ":")))

    def flush_if_due(self) -> bool:
        """Writes what waits if the last write is a while ago; returns whether it was."""
        now_ns = time.perf_counter_ns()
        if now_ns - self._flushed_ns > FLUSH_NS:
            self._flushed_ns = now_ns
            self.flush()
            return True
        return False

    def flush(self) -> None:
        """Writes what waits. A full or vanished disk ends the journal, never the script."""
        self._gather_events()
        lines, self._lines = self._lines, []
        if self._broken or not lines:
            return
        data = ("\n".join(lines) + "\n").encode()
        try:
            if self._descriptor < 0:
                flags = os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY
                self._descriptor = os.open(self.folder.rank(self.rank), flags, 0o644)
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._broken = True

    def trouble(self, where: str, error: BaseException) -> None:
        """Notes that a hook failed; only the first few times, as a hook that fails will fail at every step."""
        self.troubles += 1
        if self.troubles <= MOST_TROUBLES:
            self.row(TroubleRow(where=where, error=f"{type(error).__name__}: {error}"[:500]))
            self.flush()

    def raised(self, concerns: tuple[str, ...], error: BaseException) -> None:
        """Notes that an error of ours has gone through the script, which is about to end."""
        self.row(TroubleRow("the script", f"{type(error).__name__}: {error}"[:500], concerns))
        self.flush()

    def leave(self) -> None:
        """Stops writing in a forked child: the file belongs to the parent."""
        self._broken = True
        self.events.clear()
        self._lines.clear()

    def _gather_events(self) -> None:
        if self.events:
            line = {"kind": "events", "events": self.events}
            self._lines.append(json.dumps(line, separators=(",", ":")))
            self.events.clear()


now_ns = time.perf_counter_ns


def host_stamper(pulse: memoryview, append: Callable[[Any], None]) -> Callable[[int], None]:
    """A function that stamps; with all it needs in its closure, it costs half of what a method does.

    It is called four times a step.
    """
    clock, time_mask = now_ns, TIME_MASK

    def stamp(code: int) -> None:
        pulse[0] = moment = clock() & time_mask | code
        append(moment)

    return stamp
