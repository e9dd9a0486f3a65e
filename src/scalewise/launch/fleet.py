"""Handles the processes of one run, however they are started: polls them, asks for their stacks, ends them together."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from scalewise.launch.evidence import blames_another, tail
from scalewise.launch.forkserver import Connection, Event
from scalewise.launch.processes import process_runs
from scalewise.launch.verdict import Exit
from scalewise.records.folder import RunFolder
from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.records.pulse import STACK_SIGNAL


class Fleet(Protocol):
    """The processes of a run, as supervision needs them."""

    exits: dict[int, Exit]  # by rank
    pids: dict[int, int]  # by rank, as far as known

    @property
    def over(self) -> bool:
        """Tells whether nothing more will happen."""

    def poll(self, timeout_seconds: float) -> None:
        """Waits for news, and records them."""

    def ask_for_stacks(self, rank: int) -> None:
        """Makes the rank write its Python stacks into the run's folder."""

    def end(self) -> None:
        """Kills what is left, with everything it has started, and moves the logs to their places."""


def seconds_since(start_ns: int, at_ns: int | None = None) -> float:
    """Seconds on the monotonic clock since the run began."""
    return ((time.monotonic_ns() if at_ns is None else at_ns) - start_ns) * 1e-9


def exit_from_status(code: int, at_seconds: float, stderr: Path) -> Exit:
    """The exit that a status means, as Python's subprocess gives it: negative values are signals."""
    if code < 0:
        return Exit(None, signal_name(-code), at_seconds)
    return Exit(code, None, at_seconds, secondary=code != 0 and blames_another(tail(stderr)))


def signal_name(number: int) -> str:
    """The name of a signal, SIGKILL for 9; real-time signals have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class DirectFleet:
    """Ranks that the fork server itself has started, one process each."""

    def __init__(
        self, server: Connection, orders: Mapping[int, RankOrder | ExecOrder], folder: RunFolder, start_ns: int
    ) -> None:
        self.exits: dict[int, Exit] = {}
        self.pids: dict[int, int] = {}
        self._server = server
        self._folder = folder
        self._start_ns = start_ns
        self._ranks = {order.label: rank for rank, order in orders.items()}
        for order in orders.values():
            server.order(order)

    @property
    def over(self) -> bool:
        """Tells whether every rank has ended."""
        return len(self.exits) == len(self._ranks)

    def poll(self, timeout_seconds: float) -> None:
        """Takes the server's events, which come at once when a rank starts or ends."""
        for event in self._server.events(timeout_seconds):
            self._take(event)

    def ask_for_stacks(self, rank: int) -> None:
        """Asks the server, which knows its processes, to signal the rank; an unwatched rank would die of the signal."""
        for label, known in self._ranks.items():
            if known == rank and self._folder.stack(rank).exists():
                self._server.signal(label, STACK_SIGNAL)

    def end(self) -> None:
        """Ends all processes; ranks that had not ended before this call get no exit."""
        for event in self._server.events(0.0):
            self._take(event)
        self._server.clean()

    def _take(self, event: Event) -> None:
        rank = self._ranks.get(event.get("label", ""))
        if rank is None:
            return
        if event["event"] == "started":
            self.pids[rank] = event["pid"]
        elif event["event"] == "ended":
            at_seconds = seconds_since(self._start_ns, event["at_ns"])
            self.exits[rank] = exit_from_status(event["code"], at_seconds, self._folder.stderr(rank))


def send_stack_signal(pid: int) -> None:
    """Sends the stack signal to a rank that another program has started."""
    if process_runs(pid):
        try:
            os.kill(pid, STACK_SIGNAL)
        except ProcessLookupError:
            return
