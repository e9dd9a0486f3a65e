"""Measures what this machine takes to give a process a page of memory that it has not touched yet."""

import mmap
import time

PAGES = 1000
TRIES = 3


def page_seconds() -> float:
    """The seconds of one first touch, beyond those of a later one: the least of a few tries."""
    return min(_once() for _ in range(TRIES))


def _once() -> float:
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        first, again = _touched(memory), _touched(memory)
    return max(0.0, first - again) / PAGES


def _touched(memory: mmap.mmap) -> float:
    began = time.perf_counter()
    for at in range(0, PAGES * mmap.PAGESIZE, mmap.PAGESIZE):
        memory[at] = 1
    return time.perf_counter() - began
