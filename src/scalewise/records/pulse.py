"""The ranks' signs of life: four integers each in a memory-mapped file that the watcher writes and the parent reads.

Writing one costs tens of nanoseconds and no system call, and it survives the death of the writer.
"""

import mmap
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from scalewise.records.events import CODE_MASK, STATES, TIME_MASK

SLOTS = 4
BYTES_PER_RANK = SLOTS * 8
STAMP, STEPS, SYNCS, PID = range(SLOTS)

# Asks a rank for its Python stacks: a real-time signal, because scripts use SIGUSR1 for their own checkpoints.
STACK_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR1


@dataclass(frozen=True)
class Pulse:
    """One rank's last sign of life."""

    moved_ns: int  # time.monotonic_ns() of the last event; 0: none yet
    steps: int
    state: str  # starting, forward, backward, optimizer, waiting for data, in a collective, own code, ...: `STATES`
    syncs: int  # synchronising operations entered (collectives, and forward passes whose backward will all-reduce)
    pid: int


def create_pulses(path: Path, ranks: int) -> None:
    """Creates an empty file for this many ranks."""
    path.write_bytes(bytes(BYTES_PER_RANK * ranks))


def open_pulse(path: Path, rank: int) -> memoryview:
    """The rank's own integers, to be written in place."""
    with open(path, "r+b") as file:
        whole = mmap.mmap(file.fileno(), 0)
    return memoryview(whole).cast("q")[rank * SLOTS : (rank + 1) * SLOTS]


def read_pulses(path: Path) -> tuple[Pulse, ...]:
    """The last sign of life of every rank; empty if the file is not there."""
    try:
        with open(path, "rb") as file:
            data = file.read(os.fstat(file.fileno()).st_size)
    except OSError:
        return ()
    numbers = memoryview(data[: len(data) // BYTES_PER_RANK * BYTES_PER_RANK]).cast("q")
    return tuple(_pulse(numbers[start : start + SLOTS]) for start in range(0, len(numbers), SLOTS))


def _pulse(slots: memoryview) -> Pulse:
    stamp = slots[STAMP]
    return Pulse(
        moved_ns=stamp & TIME_MASK,
        steps=slots[STEPS],
        state=STATES.get(stamp & CODE_MASK, "own code") if stamp else "starting",
        syncs=slots[SYNCS],
        pid=slots[PID],
    )
