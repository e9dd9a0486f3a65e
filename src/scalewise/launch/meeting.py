"""Brings hosts together on which scalewise was started by hand: host 0 plans, the others take part in each of its runs.

They meet in a folder beside the runs, which all of them share. Host 0 says there which run it makes, and whether it
still lives; so no host ever plans, clears or waits by itself.
"""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from scalewise.errors import BadRequest
from scalewise.launch.host_part import LOST_SECONDS, REPORT_SECONDS, HostPart, host_name, take_part
from scalewise.launch.hosts import HostsRanks
from scalewise.launch.launcher import Launcher
from scalewise.records.codec import read_json_or_none
from scalewise.records.folder import RunFolder
from scalewise.records.host_notes import PlannerWord, Presence, leave
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Nodes, RunSpec

WAIT_SECONDS = 300.0  # for a host that has not come
_LOOK_SECONDS = 0.2
# Gives the launcher of a host's own ranks: in which folder the run is, and the number of the host.
OwnLauncher = Callable[[RunFolder, int], Launcher]


def meeting_folder(out: Path, nodes: Nodes) -> Path:
    """The folder in which the hosts of one command meet."""
    return out / f".hosts-{nodes.master_address}-{nodes.master_port}".replace(":", "_")


class Planner:
    """The side of host 0; while it is open, the others know that it lives."""

    def __init__(self, folder: Path, nodes: Nodes, request: str) -> None:
        self._folder, self._nodes = folder, nodes
        self._call = PlannerWord(uuid.uuid4().hex, 0, request)
        self._seen: dict[int, tuple[int, float]] = {}  # by host: its number, and when that changed
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> "Planner":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._say()
        self._beat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._beat.join()
        self._say(run="", over=self._call.over or "incomplete")

    def done(self, suite: Path, complete: bool) -> None:
        """Notes the folder in which the runs are, and whether all are made."""
        self._say(suite=suite.name, over="" if not complete else "complete")

    def call(self, folder: RunFolder, attempt: str, hosts: int) -> None:
        """Asks the other hosts for their parts of a run."""
        path = folder.path.resolve()
        self._say(suite=path.parent.name, run=path.name, attempt=attempt, hosts=hosts)

    def await_hosts(self, count: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Waits until that many hosts are there; a BadRequest if one does not come."""
        began = time.monotonic()
        while missing := [node for node in range(1, count) if not self._here(node)]:
            if stop():
                raise KeyboardInterrupt
            if time.monotonic() - began > WAIT_SECONDS:
                raise BadRequest(
                    f"Host {missing[0]} has not come within {time.monotonic() - began:.0f} s.",
                    f"Start the same command there with --node-rank {missing[0]}; all hosts must share "
                    f"{self._folder.parent}.",
                )
            time.sleep(_LOOK_SECONDS)

    def _here(self, node: int) -> bool:
        """Tells whether the host answers this very session and was heard of lately."""
        presence = read_json_or_none(self._folder / f"host{node}.json", Presence)
        if presence is None or presence.session != self._call.session:
            return False
        number, since = self._seen.get(node, (-1, 0.0))
        if presence.number != number:
            self._seen[node] = presence.number, time.monotonic()
            return True
        return time.monotonic() - since < LOST_SECONDS

    def _go_on(self) -> None:
        while not self._ended.wait(REPORT_SECONDS):
            self._say()

    def _say(self, **values: object) -> None:
        with self._lock:
            self._call = replace(self._call, number=self._call.number + 1, **values)  # type: ignore[arg-type]
            leave(self._folder / "planner.json", self._call)


@dataclass(frozen=True)
class MetHosts:
    """Launches runs on hosts that have met: each starts torchrun for its own ranks, host 0 in a thread of its own."""

    planner: Planner
    machine: MachineFacts
    own: OwnLauncher
    stop: Callable[[], bool] = lambda: False

    def start(self, spec: RunSpec, folder: RunFolder) -> HostsRanks:
        """Calls the hosts together for one run."""
        assert spec.nodes is not None
        self.planner.await_hosts(spec.nodes.count, self.stop)
        ranks = _MetRanks(spec, folder)
        part = HostPart(folder, ranks.attempt, 0, host_name(), self.machine)
        ranks.own_part = threading.Thread(target=take_part, args=(part, self.own(folder, 0)), daemon=True)
        ranks.own_part.start()
        self.planner.call(folder, ranks.attempt, spec.nodes.count)
        return ranks


class _MetRanks(HostsRanks):
    own_part: threading.Thread

    def check(self) -> None:
        """Does nothing: hosts that are lost are missed by their silence."""


def attend(
    folder: Path,
    nodes: Nodes,
    request: str,
    machine: MachineFacts,
    own: OwnLauncher,
    say: Callable[[str], None],
    stop: Callable[[], bool],
) -> tuple[Path | None, bool]:
    """The side of another host: takes part in each run of host 0; returns the folder of the runs, and if all are made.

    A host 0 that was killed may be started again; it is waited for as long as for one that has not come yet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    guest = _Guest(folder, nodes.node_rank)
    say(f"host {nodes.node_rank} of {nodes.count}: waiting for host 0, which plans")
    made = ""
    while not stop():
        call, alive = guest.look()
        if call is not None and call.over and (alive or (call.request == request and call.over == "complete")):
            return folder.parent / call.suite if call.suite else None, call.over == "complete"
        if guest.silent_seconds > WAIT_SECONDS:
            raise BadRequest(
                f"Host 0 has not been heard of for {guest.silent_seconds:.0f} s in {folder.parent}.",
                "Start the same command there with --node-rank 0; all hosts must share that folder (--out).",
            )
        if call is not None and alive and call.run and call.attempt != made and nodes.node_rank < call.hosts:
            made = call.attempt
            say(f"takes part in {call.run}")
            run = RunFolder(folder.parent / call.suite / call.run)
            with guest.answering():
                part = HostPart(run, call.attempt, nodes.node_rank, host_name(), machine)
                take_part(part, own(run, nodes.node_rank), stop)
        time.sleep(_LOOK_SECONDS)
    return None, False


class _Guest:
    """The words of a host that does not plan, and what it has heard of host 0."""

    def __init__(self, folder: Path, node_rank: int) -> None:
        self._folder, self._node_rank = folder, node_rank
        self._call: PlannerWord | None = None
        self._live_session = ""  # the session that was seen to go on
        self._heard_seconds = time.monotonic()
        self._presence = Presence("", 0, host_name())
        self._said_seconds = 0.0

    @property
    def silent_seconds(self) -> float:
        """The time since host 0 was last seen to live."""
        return time.monotonic() - self._heard_seconds

    def look(self) -> tuple[PlannerWord | None, bool]:
        """The last words of host 0, and whether it was alive since this host came; answers it."""
        call, last = read_json_or_none(self._folder / "planner.json", PlannerWord), self._call
        if call is not None:
            if last is not None and (call.session, call.number) != (last.session, last.number):
                self._live_session, self._heard_seconds = call.session, time.monotonic()
            self._call = call
        if time.monotonic() - self._said_seconds >= REPORT_SECONDS or self._presence.session != self._live_session:
            self._said_seconds = time.monotonic()
            self._presence = replace(self._presence, session=self._live_session, number=self._presence.number + 1)
            leave(self._folder / f"host{self._node_rank}.json", self._presence)
        return self._call, self._call is not None and self._call.session == self._live_session

    def answering(self) -> "_Answering":
        """Goes on answering host 0 from a thread while this host takes part in a run."""
        return _Answering(self)


class _Answering:
    def __init__(self, guest: _Guest) -> None:
        self._guest, self._ended = guest, threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._ended.wait(REPORT_SECONDS):
            self._guest.look()
