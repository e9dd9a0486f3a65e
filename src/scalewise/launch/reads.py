"""Finds out which of some files a run has read, from the kernel (inotify), without slowing the ranks."""

import ctypes
import os
import struct
import sys

_ACCESS, _MODIFY, _CLOSE_NOWRITE = 0x1, 0x2, 0x10
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 1 << 20
MOST_WATCHED = 1000


class Reads:
    """A watch on files; if the system has no way to watch them, none counts as read."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._descriptor = -1  # opened for the first file

    def watch(self, path: str, name: str) -> None:
        """Watches a file from now on; `name` is what the file is called in the result."""
        if sys.platform != "linux" or len(self._names) >= MOST_WATCHED:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if self._descriptor < 0:
            self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        number = libc.inotify_add_watch(self._descriptor, os.fsencode(path), _ACCESS | _MODIFY | _CLOSE_NOWRITE)
        if number >= 0:
            self._names[number] = name

    def end(self) -> list[str]:
        """The files that were read before anything was written to them."""
        if self._descriptor < 0:
            return []
        first: dict[int, bool] = {}
        while data := self._more():
            offset = 0
            while offset < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size + length
                if mask & (_ACCESS | _MODIFY | _CLOSE_NOWRITE):
                    first.setdefault(number, not mask & _MODIFY)
        os.close(self._descriptor)
        self._descriptor = -1
        return sorted({self._names[number] for number, read in first.items() if read and number in self._names})

    def _more(self) -> bytes:
        try:
            return os.read(self._descriptor, _MOST_BYTES)
        except OSError:
            return b""
