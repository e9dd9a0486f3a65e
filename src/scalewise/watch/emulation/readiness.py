"""Shares among the ranks of one host, through a file they all map, when each rank had a message ready.

A link cannot begin before the last rank is ready. The real message cannot end before, either, so a rank that has
received it finds the times of all the others here, and no further message has to be sent to learn them.
"""

import mmap
import os
from pathlib import Path

SLOTS = 1024  # messages under way at once; far more than there are
_WORDS = 2  # of a rank in a slot: the message's number, counted from 1, and its time


class Readiness:
    """The shared times of all ranks of one host; the clock is that of the host, the same for every process."""

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
        """Writes when this rank had its part of a message ready."""
        at = self._at(rank, number)
        self._words[at + 1] = ready_ns
        self._words[at] = number

    def last(self, number: int, own_ns: int) -> int:
        """The latest time at which any rank had that message ready, as far as known."""
        latest = own_ns
        for rank in range(self._ranks):
            at = self._at(rank, number)
            if self._words[at] == number:
                latest = max(latest, self._words[at + 1])
        return latest

    def _at(self, rank: int, number: int) -> int:
        return (number % SLOTS * self._ranks + rank) * _WORDS
