"""The rank's append-only file: rows are acknowledged when they are written, and written whole."""

import json
import os
import time

from scalewise.records.codec import encode
from scalewise.records.folder import RunFolder
from scalewise.records.rows import ROW_KINDS, TroubleRow

# Rows wait in memory this long at most, counted from the last write to the next row: one system call then serves
# hundreds of steps of a fast script, and a slow one writes each row at once.
FLUSH_NS = 50_000_000
MOST_TROUBLES = 20

_KIND_OF = {kind: name for name, kind in ROW_KINDS.items()}


class Journal:
    """Opened by the first row, so that processes that never train leave no file; the first process to train owns it."""

    __slots__ = ("_flushed_ns", "_folder", "_waiting", "broken", "descriptor", "rank", "troubles")

    def __init__(self, folder: RunFolder, rank: int) -> None:
        self._folder = folder
        self.rank = rank
        self.descriptor = -1
        self.broken = False
        self.troubles = 0
        self._waiting: list[str] = []
        self._flushed_ns = 0

    def row(self, row: object) -> None:
        """Appends a record."""
        values = encode(row)
        del values["schema"]  # the reader takes a line without a version as its own
        kind = _KIND_OF[type(row)]
        self.line(json.dumps({"kind": kind, **values}, separators=(",", ":")) + "\n")

    def line(self, line: str) -> None:
        """Appends a line that is JSON already; writes it, and all that wait, when the last write is a while ago."""
        if self.broken:
            return
        self._waiting.append(line)
        now_ns = time.perf_counter_ns()
        if now_ns - self._flushed_ns > FLUSH_NS:
            self._flushed_ns = now_ns
            self.flush()

    def flush(self) -> None:
        """Writes what waits. A full or vanished disk ends the journal, never the script."""
        if self.broken or not self._waiting:
            return
        data = "".join(self._waiting).encode()
        self._waiting.clear()
        try:
            if self.descriptor < 0:
                path = self._folder.rank(self.rank)
                self.descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY, 0o644)
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError:
            self.broken = True

    def trouble(self, where: str, error: BaseException) -> None:
        """Notes that a hook failed; only the first few, for a hook that fails will fail at every step."""
        self.troubles += 1
        if self.troubles <= MOST_TROUBLES:
            self.row(TroubleRow(where=where, error=f"{type(error).__name__}: {error}"[:500]))

    def leave(self) -> None:
        """In a forked child: the file belongs to the parent."""
        self.broken = True
        self._waiting.clear()
