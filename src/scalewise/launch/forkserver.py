"""The parent's side of the fork server: starts it, sends orders, receives its events."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import scalewise
from scalewise.errors import BadRequest
from scalewise.launch.launcher import LaunchFailed
from scalewise.records.codec import encode
from scalewise.records.orders import ExecOrder, ProbeOrder, RankOrder, ViewOrder

# The server must import this very copy of scalewise, in whatever interpreter it runs; its own folder is the first entry
# of the path, which a rank replaces by the folder of its script.
_SOURCE = str(Path(scalewise.__file__).resolve().parent.parent)
_BOOT = (
    "import sys; sys.path[:0 if sys.flags.safe_path else 1] = [sys.argv[1]]; "
    "from scalewise.watch.server import serve; "
    "job = serve(int(sys.argv[2]), sys.argv[3] == 'preload'); job and job()"
)
_START_SECONDS = 60.0
_END_SECONDS = 5.0
# Variables read only once, when the interpreter or a native library is loaded: a rank forked later ignores them.
_READ_AT_START = (
    "PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_",
    "TORCH", "PYTORCH_", "ATEN_",
)  # fmt: skip

Event = dict[str, Any]


class ServerDied(LaunchFailed):
    """The error for a fork server that has gone; carries its last output."""

    def __init__(self, words: str) -> None:
        super().__init__(f"the fork server ended: {words}", "run the same command again")


@dataclass(frozen=True)
class ServerKey:
    """The properties in which two runs must agree to come from one server."""

    python: str
    cwd: str
    preload: bool
    start_variables: tuple[tuple[str, str], ...]


def server_key(python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> ServerKey:
    """The key of a server that can start a process with this environment."""
    chosen = sorted((name, value) for name, value in environment.items() if name.startswith(_READ_AT_START))
    return ServerKey(python or sys.executable, cwd, preload, tuple(chosen) if preload else ())


class Connection:
    """A connection to one server, for orders and for its events."""

    def __init__(self, connection: socket.socket, said: IO[bytes]) -> None:
        self._received = b""
        self._connection = connection
        self._said = said  # its standard error, for its last line

    def order(self, order: RankOrder | ExecOrder | ProbeOrder) -> None:
        """Asks for one process; `started` and `ended` events with its label follow."""
        verb = {RankOrder: "rank", ExecOrder: "exec", ProbeOrder: "probe"}[type(order)]
        self._send({"do": verb, **encode(order)})

    def host_store(self) -> int:
        """Starts the agent that holds the ranks' key-value store and returns its port."""
        self._send({"do": "store"})
        port = self.wait_for("store", 20.0)["port"]
        if port is None:
            raise ServerDied("the key-value store of the ranks could not be started")
        return int(port)

    def keep_view(self, order: ViewOrder) -> Event:
        """Starts the process that keeps a private view; returns its `pid`, or the `error` with which that failed."""
        self._send({"do": "view", **encode(order)})
        return self.wait_for("view", 20.0)

    def signal(self, label: str, number: int) -> None:
        """Sends a signal to the process with that label, if it still runs."""
        self._send({"do": "signal", "label": label, "signal": int(number)})

    def clean(self) -> list[Event]:
        """Kills everything that the server has started, with all descendants; returns the last events."""
        self._send({"do": "clean"})
        events: list[Event] = []
        self.wait_for("clean", 10.0, others=events)
        return events

    def events(self, timeout_seconds: float) -> list[Event]:
        """Returns the events that have come; waits up to the timeout for the first one."""
        readable, _, _ = select.select([self._connection], [], [], max(0.0, timeout_seconds))
        if not readable:
            return []
        try:
            data = self._connection.recv(1 << 20)
        except OSError as error:
            raise ServerDied(str(error)) from error
        if not data:
            raise ServerDied(self._last_words())
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def wait_for(self, kind: str, timeout_seconds: float, others: list[Event] | None = None) -> Event:
        """Returns the next event of that kind; events before it are kept in `others` or dropped."""
        end = time.monotonic() + timeout_seconds
        while time.monotonic() < end:
            for event in self.events(end - time.monotonic()):
                if event["event"] == kind:
                    return event
                if others is not None:
                    others.append(event)
        raise ServerDied(f"no answer ({kind}) in {timeout_seconds:.0f} s")

    def close(self) -> None:
        """Closes the connection: the server kills what it has started and exits."""
        self._connection.close()

    def _send(self, request: dict[str, Any], descriptor: int | None = None) -> None:
        data = json.dumps(request).encode() + b"\n"
        try:
            if descriptor is None:
                self._connection.sendall(data)
            else:
                socket.send_fds(self._connection, [data], [descriptor])
        except OSError as error:
            raise ServerDied(self._last_words() or str(error)) from error

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class ForkServer(Connection):
    """A fork server process and the connection to it."""

    def __init__(self, key: ServerKey, environment: Mapping[str, str]) -> None:
        connection, other = socket.socketpair()
        super().__init__(connection, tempfile.TemporaryFile())  # noqa: SIM115
        self.key = key
        self.branches: list[Connection] = []
        with other:
            self._process = self._start(other, environment)
        self.versions: dict[str, str] = {}
        try:
            ready = self.wait_for("ready", _START_SECONDS)
            if "error" in ready:
                raise _torch_missing(key.python, ready["error"])
        except BaseException:
            self.close()
            raise
        self.pid: int = ready["pid"]
        self.versions.update(ready.get("versions", {}))

    def branch(self) -> Connection:
        """Starts a copy of the server for a run that is alive beside others, so that its processes end separately.

        The ranks of all copies have the same memory layout, which those of different servers would not have.
        """
        connection, other = socket.socketpair()
        with other:
            self._send({"do": "branch"}, other.fileno())
            copy = Connection(connection, self._said)
            self.branches.append(copy)
        copy.wait_for("ready", _START_SECONDS)
        return copy

    def prune(self) -> None:
        """Ends the copies, with everything that they have started."""
        copies, self.branches = self.branches, []
        for copy in copies:
            copy.close()
            with contextlib.suppress(ServerDied):
                self.wait_for("ended", _END_SECONDS)

    def _start(self, other: socket.socket, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        mode = "preload" if self.key.preload else "bare"
        try:
            return subprocess.Popen(
                [self.key.python, "-c", _BOOT, _SOURCE, str(other.fileno()), mode],
                pass_fds=[other.fileno()],
                env=dict(environment),
                cwd=self.key.cwd,
                start_new_session=True,  # the parent decides what Ctrl-C does
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
            )
        except OSError as error:
            self._connection.close()
            self._said.close()
            raise BadRequest(
                f"{self.key.python} cannot be started in {self.key.cwd}: {error.strerror}",
                "check the interpreter and the working folder of the run",
            ) from error

    @property
    def alive(self) -> bool:
        """Tells whether the server still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Closes the connection: the server kills what it has started and exits."""
        self.prune()
        super().close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


class ServerSource(Protocol):
    """The interface that gives a run the server for its ranks."""

    def get(self, python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> Connection:
        """Returns a live server whose ranks are like new processes with this environment."""


class Servers:
    """The fork servers of one campaign: started when first needed, kept while runs can use them."""

    kept: ClassVar[int] = 3

    def __init__(self) -> None:
        self._servers: OrderedDict[ServerKey, ForkServer] = OrderedDict()

    def get(self, python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> ForkServer:
        """Returns a live server whose ranks are like new processes with this environment."""
        key = server_key(python, cwd, environment, preload)
        server = self._servers.pop(key, None)
        if server is not None and not server.alive:
            server.close()
            server = None
        if server is None:
            server = ForkServer(key, environment)
        self._servers[key] = server
        idle = [old for old, one in self._servers.items() if not one.branches and one is not server]
        for old in idle[: max(0, len(self._servers) - self.kept)]:
            self._servers.pop(old).close()
        return server

    def close(self) -> None:
        """Ends every server, with everything that they have started."""
        while self._servers:
            self._servers.popitem()[1].close()

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _torch_missing(python: str, error: str) -> BadRequest:
    return BadRequest(
        f"torch cannot be imported by {python}: {error}",
        f"install it there: {python} -m pip install 'torch>=2.11,<2.16'",
    )


def user_environment() -> dict[str, str]:
    """The user's own environment, without variables that an outer watched run may have left in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SCALEWISE_")}
