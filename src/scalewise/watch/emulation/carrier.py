"""The emulated link of one rank: a thread that releases messages one after another, each when its time has come.

A message takes the link's latency and its bytes at the link's rate, and begins when the last rank is ready and the
message before it is through. Sleeping takes no core, so computing goes on as it would beside a real link. No message is
released before the real one has arrived; those that were late are counted.

Ranks of one host share, through a file they all map, when each had a message ready. The real message cannot end before
the last one was, so a rank that has received it finds the times of all the others there, and no further message has to
be sent to learn them.
"""

import mmap
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scalewise.watch.crash import for_the_script

KIND = "emulate_link"
LATE = "emulate_link late"  # the real message took longer than the emulated link would have
NANO = 1e-9
SLOTS = 1024  # messages under way at once; far more than there are
_WORDS = 2  # of a rank in a slot: the message's number, counted from 1, and its time


@dataclass
class Message:
    """One message under way; `error` is the exception of the real message, if it failed."""

    size_bytes: int
    number: int  # among the messages of all ranks; 0: of some ranks only
    ready_ns: int
    arrive: Callable[[], object] = lambda: None  # waits for the real one
    released: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    then: list[Callable[[], None]] = field(default_factory=list)

    def wait(self) -> None:
        """Waits until the link has released the message."""
        self.released.wait()
        if self.error is not None:
            raise for_the_script(self.error)


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


class Carrier:
    """The link of one process; messages pass in the order in which they were handed over."""

    def __init__(
        self,
        latency_seconds: float,
        bytes_per_second: float,
        readiness: Readiness | None,
        count: Callable[[str], None],
    ) -> None:
        self._latency_seconds, self._bytes_per_second = latency_seconds, bytes_per_second
        self._readiness, self._count = readiness, count
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._thread_of = 0  # the process in which the thread runs: a forked child has none
        self._numbers = 0
        self._free_seconds = 0.0
        self._lock = threading.Lock()

    def ready(self, size_bytes: int, rank: int | None) -> Message:
        """Announces a message that is about to be sent; `rank` in the group of all ranks, None for another group."""
        now_ns = time.perf_counter_ns()
        if rank is None or self._readiness is None:
            return Message(size_bytes, 0, now_ns)
        self._numbers += 1
        self._readiness.tell(rank, self._numbers, now_ns)
        return Message(size_bytes, self._numbers, now_ns)

    def carry(self, message: Message) -> None:
        """Hands the message over to the link; returns at once."""
        if self._thread_of != os.getpid():
            self._thread_of = os.getpid()
            threading.Thread(target=self._run, name="emulated-link", daemon=True).start()
        self._queue.put(message)

    def then(self, message: Message, do: Callable[[], None]) -> None:
        """Calls a function once the message is released; at once if it is already."""
        with self._lock:
            if not message.released.is_set():
                message.then.append(do)
                return
        do()

    def _run(self) -> None:
        while True:
            message = self._queue.get()
            try:
                message.arrive()
                self._hold(message)
            except BaseException as error:  # the real message failed: whoever waits is told
                message.error = error
            with self._lock:
                message.released.set()
                waiting, message.then = message.then, []
            for do in waiting:
                do()

    def _hold(self, message: Message) -> None:
        ready_ns = message.ready_ns
        if message.number and self._readiness is not None:
            ready_ns = self._readiness.last(message.number, ready_ns)
        begin = max(self._free_seconds, ready_ns * NANO)
        self._free_seconds = begin + self._latency_seconds + message.size_bytes / self._bytes_per_second
        left = self._free_seconds - time.perf_counter()
        self._count(KIND)
        if left > 0:
            time.sleep(left)
        else:
            self._count(LATE)
