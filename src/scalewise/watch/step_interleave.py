"""Lets runs that are alive together make their steps in turns: a token goes round their ring, through named pipes.

Every rank has an inbox. A run hands on its turn when all its ranks have written a byte to every inbox of the next run,
so that no rank begins while one of the other run is still at work. A rank that sees a partner leave, leaves as well and
tells the next: nobody waits for runs that have ended, for whatever reason.

Before it hands on, a rank waits until all other threads of its process sleep: OpenMP's spin on for milliseconds after
their last loop. A run that comes next on the same cores would have to compute beside them: with four cores per rank a
forward pass took 4 to 6 ms instead of 1.5.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable

from scalewise.records.events import TURN, TURN_END, TURN_LEFT
from scalewise.records.folder import RunFolder
from scalewise.records.spec import RunSpec, Turns

TOKEN, GOODBYE = b".", b"x"
BEAT_MILLISECONDS = 500  # between two looks whether the partners are still there
# A partner that shows no life for its stall limit is ended by the parent, but not while it is still starting.
LEAST_PATIENCE_SECONDS = 60.0


class PartnerGone(Exception):
    """The error that a partner has left the ring, or does not answer."""


class Ring:
    """The place of this rank in its ring."""

    def __init__(self, folder: RunFolder, spec: RunSpec, place: Turns, rank: int) -> None:
        def inboxes(index: int) -> list[str]:
            return [str(folder.inbox(place.ring, index % place.size, one)) for one in range(spec.ranks)]

        self._first = place.index == 0
        self._own = inboxes(place.index)[rank]
        self._next = inboxes(place.index + 1)
        self._partners = [inboxes(index)[rank] for index in range(place.size)]
        self._patience_seconds = max(spec.stall_seconds, LEAST_PATIENCE_SECONDS)
        self._inbox = -1
        self._outboxes: list[int] = []
        self._stillness = IdleThreads()

    def take_turn(self, stamp: Callable[[int], None], beat: Callable[[], None]) -> bool:
        """Hands the turn on and waits until it comes back; False: the ring is broken, and this rank has left it."""
        stamp(TURN)
        try:
            if self._inbox < 0:
                self._join()
                if not self._first:
                    self._wait(beat)  # the token's first round only finds out that everybody is there
            self._stillness.wait()
            self._send(TOKEN)
            self._wait(beat)
        except (PartnerGone, OSError):
            self.leave()
            stamp(TURN_LEFT)
            return False
        stamp(TURN_END)
        return True

    def leave(self) -> None:
        """Leaves the ring for good; the next run is told, and goes on alone as well."""
        with contextlib.suppress(OSError):
            self._send(GOODBYE)
        self.close()

    def close(self) -> None:
        """Closes the pipes and tells nobody: in a forked child, the place is the parent's."""
        descriptors, self._outboxes = [self._inbox, *self._outboxes], []
        self._inbox = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _join(self) -> None:
        self._inbox = os.open(self._own, os.O_RDONLY | os.O_NONBLOCK)
        for path in self._next:
            # Opened for reading, too, though nothing is read: a pipe without a reader would kill a writer whose script
            # has reset SIGPIPE to its default.
            self._outboxes.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    def _send(self, word: bytes) -> None:
        for outbox in self._outboxes:
            os.write(outbox, word)

    def _wait(self, beat: Callable[[], None]) -> None:
        """Waits until every rank of the run before has handed on its turn."""
        poll = select.poll()
        poll.register(self._inbox, select.POLLIN)
        end = time.monotonic() + self._patience_seconds
        missing = len(self._next)
        while missing:
            if poll.poll(BEAT_MILLISECONDS):
                said = os.read(self._inbox, missing)
                if not said or GOODBYE in said:
                    raise PartnerGone
                missing -= len(said)
            else:
                beat()
                if time.monotonic() > end or not all(map(os.path.exists, self._partners)):
                    raise PartnerGone


LOOK_SECONDS = 0.0005
MOST_IDLE_SECONDS = 0.1
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
        end = time.monotonic() + MOST_IDLE_SECONDS
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
