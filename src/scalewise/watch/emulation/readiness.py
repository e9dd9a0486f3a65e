"""When the last rank had a message ready: told among the ranks of one host by a file that all of them map.

A link cannot begin before the last rank is ready. The real message cannot end before, either, so whoever has it finds
the moments of all the others here, and no message more has to be sent to learn them.
"""

import mmap
import os
from pathlib import Path

SLOTS = 1024  # messages under way at once; far more than there are
_WORDS = 2  # of a rank in a slot: the message's number, counted from 1, and the moment


class Readiness:
    """All ranks of one host; the clock is that of the host, the same for every process."""

    def __init__(self, path: Path, ranks: int) -> None:
        self._ranks = ranks
        size_bytes = SLOTS * ranks * _WORDS * 8
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            os.ftruncate(descriptor, size_bytes)
            self._words = memoryview(mmap.mmap(descriptor, size_bytes)).cast("q")
        finally:
            os.close(descriptor)

    def tell(self, rank: int, number: int, ready_ns: int) -> None:
        """This rank has its part of that message ready."""
        at = self._at(rank, number)
        self._words[at + 1] = ready_ns
        self._words[at] = number

    def last(self, number: int, own_ns: int) -> int:
        """The latest moment that is known for that message."""
        latest = own_ns
        for rank in range(self._ranks):
            at = self._at(rank, number)
            if self._words[at] == number:
                latest = max(latest, self._words[at + 1])
        return latest

    def _at(self, rank: int, number: int) -> int:
        return (number % SLOTS * self._ranks + rank) * _WORDS
