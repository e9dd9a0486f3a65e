"""Waits until all other threads of this process sleep: OpenMP's spin on for milliseconds after their last loop.

A run that comes next on the same cores would have to compute beside them: with four cores per rank a forward pass took
4 to 6 ms instead of 1.5.
"""

import os
import threading
import time

LOOK_SECONDS = 0.0005
MOST_SECONDS = 0.1
MOST_IN_VAIN = 3  # in a row: then there is a thread with work of its own, and waiting for it is no use
RUNNING = b"R"


class IdleThreads:
    """A wait for the other threads of this process, as far as they can be seen."""

    def __init__(self) -> None:
        self._in_vain = 0

    def wait(self) -> None:
        """Waits until nothing but this thread runs, or for a moment only, if that never happens."""
        if self._in_vain >= MOST_IN_VAIN:
            return
        end = time.monotonic() + MOST_SECONDS
        while others_run():
            if time.monotonic() > end:
                self._in_vain += 1
                return
            time.sleep(LOOK_SECONDS)
        self._in_vain = 0


def others_run() -> bool:
    """Returns whether another thread of this process runs or is ready to; False if the system does not tell."""
    own = str(threading.get_native_id())
    try:
        return any(_state(task) == RUNNING for task in os.listdir("/proc/self/task") if task != own)
    except OSError:
        return False


def _state(task: str) -> bytes:
    """The state letter after the thread's name, which may hold a parenthesis, too; empty if the thread has ended."""
    try:
        with open(f"/proc/self/task/{task}/stat", "rb", buffering=0) as file:
            return file.read(256).rpartition(b") ")[2][:1]
    except OSError:
        return b""
