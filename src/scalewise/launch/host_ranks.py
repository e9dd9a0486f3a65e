"""The base of launchers of this host: signs of life in shared memory, stacks by a signal, loads from /proc."""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from scalewise.errors import did_you_mean
from scalewise.launch import environment
from scalewise.launch.failure_logs import blames_another, parse_stack, tail
from scalewise.launch.forkserver import Connection, Event, ServerSource, user_environment
from scalewise.launch.launcher import LaunchFailed
from scalewise.launch.sampler import Sampler
from scalewise.launch.verdict import Exit, RankView
from scalewise.launch.working_folder import OpenWorld, Seat, open_world
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.records.outcome import World
from scalewise.records.pulse import STACK_SIGNAL, Pulse, create_pulses, read_pulses
from scalewise.records.spec import RunSpec

_STACK_SECONDS = 0.5


class HostRanks(ABC):
    """The common base of a run's ranks on this host, whoever starts them."""

    def __init__(self, spec: RunSpec, folder: RunFolder, world: OpenWorld | None, asked_ns: int) -> None:
        self.exits: dict[int, Exit] = {}
        self.pids: dict[int, int] = {}  # by rank, as far as known
        self.spec, self.folder = spec, folder
        self.sampler: Sampler | None = None
        self._world = world
        self._kills_before = memory_kills()
        # The run's clock starts here, so that the time a server takes to start is not taken for a standstill.
        self.start_ns = time.monotonic_ns()
        self.seconds_before = (self.start_ns - asked_ns) * 1e-9
        # By rank: its last sign of life, and how long it had queued then.
        self._queued: dict[int, tuple[int, float]] = {}

    @property
    def ranks(self) -> range:
        """The numbers of these ranks among the ranks of all nodes."""
        first = first_rank(self.spec)
        return range(first, first + self.spec.ranks)

    @property
    def hosts(self) -> tuple[str, ...]:
        """No names: the ranks are on this host, which the rows of each name."""
        return ()

    @property
    def seconds(self) -> float:
        """The seconds since the run's clock started."""
        return seconds_since(self.start_ns)

    @property
    def all_started(self) -> bool:
        """True if the process of every rank is known."""
        return len(self.pids) == len(self.ranks)

    @property
    def memory_kills(self) -> int:
        """The number of processes that this host's kernel has killed for lack of memory since the ranks started."""
        return memory_kills() - self._kills_before

    @property
    @abstractmethod
    def over(self) -> bool:
        """True if nothing more will happen."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Waits until a rank starts or ends, or the time is over, and takes note of it."""

    @abstractmethod
    def ask_for_stacks(self, rank: int) -> None:
        """Makes the rank write its Python stacks into the run's folder."""

    @abstractmethod
    def end(self) -> None:
        """Kills the ranks that are left, with everything they have started, and moves the logs to their places."""

    def pause(self, seconds: float) -> None:
        """Waits by this host's clock."""
        time.sleep(seconds)

    def start_problem(self) -> tuple[str, str]:
        """Returns two empty texts: either the server has started its ranks, or the server is gone."""
        return "", ""

    def pulses(self) -> tuple[Pulse, ...]:
        """Reads the signs of life from the file that the ranks have mapped into their memory."""
        return read_pulses(self.folder.pulses_on(node_rank_of(self.spec)))

    def sample(self) -> None:
        """Samples the machine, with the number of steps that each rank has made by now."""
        pulses = self.pulses()
        if self.sampler is not None:
            pids = [self.pids.get(rank, 0) for rank in self.ranks]
            self.sampler.sample(pids, [pulses[rank].steps if rank < len(pulses) else 0 for rank in self.ranks])

    def stacks(self, ranks: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Asks the ranks for their stacks by a signal and returns what they have written, which may be nothing."""
        sizes = {rank: _size(self.folder.stack(rank)) for rank in ranks}
        for rank in ranks:
            self.ask_for_stacks(rank)
        end = time.monotonic() + _STACK_SECONDS
        while time.monotonic() < end and any(_size(self.folder.stack(rank)) == sizes[rank] for rank in ranks):
            time.sleep(0.02)
        # The dump is written in pieces, and the last ones may not be written yet.
        time.sleep(0.05)
        return {rank: parse_stack(_text_from(self.folder.stack(rank), sizes[rank])) for rank in ranks}

    def views(self) -> tuple[RankView, ...]:
        """The state of each rank, from its pulse and its process."""
        pulses = self.pulses()
        return tuple(self._view(rank, pulses[rank] if rank < len(pulses) else None) for rank in self.ranks)

    def close(self) -> World | None:
        """Ends the samples, and lists the files that the run has left."""
        if self.sampler is not None:
            self.sampler.close()
        return self._world.close() if self._world is not None else None

    def _view(self, rank: int, pulse: Pulse | None) -> RankView:
        end = self.exits.get(rank)
        if pulse is None:
            pid = self.pids.get(rank, 0)
            return RankView(rank, end, pid=pid, queued_seconds=self._queued_since(rank, pid, 0))
        moved = seconds_since(self.start_ns, pulse.moved_ns) if pulse.moved_ns else None
        pid = pulse.pid or self.pids.get(rank, 0)  # a rank reports its own pid only when it has begun to train
        queued = self._queued_since(rank, pid, pulse.moved_ns)
        return RankView(rank, end, moved, pulse.state, pulse.steps, pulse.syncs, pulse.pid, queued)

    def _queued_since(self, rank: int, pid: int, moved_ns: int) -> float:
        """The seconds for which a rank queued for a core since it last moved, which are not counted as standstill."""
        queued = queued_seconds(pid) if pid else 0.0
        last_ns, before = self._queued.get(rank, (-1, 0.0))
        if moved_ns != last_ns:
            self._queued[rank] = (moved_ns, queued)
            return 0.0
        return max(0.0, queued - before)


class ServerRanks(HostRanks):
    """Ranks that the fork server itself has started, one process each."""

    def begin(self, server: Connection, orders: Mapping[int, RankOrder | ExecOrder]) -> None:
        """Starts the ranks."""
        self._server = server
        self._ranks = {order.label: rank for rank, order in orders.items()}
        for order in orders.values():
            server.order(order)

    @property
    def over(self) -> bool:
        """True if every rank has ended."""
        return len(self.exits) == len(self._ranks)

    def wait(self, seconds: float) -> None:
        """Waits for the server's events, which come at once when a rank starts or ends."""
        for event in self._server.events(seconds):
            self._take(event)

    def ask_for_stacks(self, rank: int) -> None:
        """Asks the server, which knows its processes, to signal the rank; an unwatched rank would die of the signal."""
        for label, known in self._ranks.items():
            if known == rank and self.folder.stack(rank).exists():
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
            at_seconds = seconds_since(self.start_ns, event["at_ns"])
            self.exits[rank] = exit_from_status(event["code"], at_seconds, self.folder.stderr(rank))


@dataclass(frozen=True)
class Start:
    """The values that the ranks of a run are started with."""

    spec: RunSpec
    folder: RunFolder
    spec_path: Path
    server: Connection
    visible: dict[str, str]  # environment variables that the script sees
    hidden: dict[str, str]  # environment variables that only the watcher sees
    world: OpenWorld | None
    asked_ns: int

    @property
    def out(self) -> RunFolder:
        """The folder by its whole path."""
        return RunFolder(self.folder.path.resolve())

    def seat(self, rank: int) -> Seat:
        """The place where the rank is started."""
        return self.world.seat(rank) if self.world else Seat(self.spec.cwd)


@dataclass(frozen=True)
class HostLauncher(ABC):
    """The common base of this host's launchers: the machine, and the servers that can start processes."""

    preload: ClassVar[bool] = False  # the server that starts its processes has imported torch
    machine: MachineFacts
    servers: ServerSource
    spec_path: Path | None = None  # None: `spec.json` of the run's folder

    @abstractmethod
    def ranks(self, start: Start) -> HostRanks:
        """Starts the ranks."""

    def start(self, spec: RunSpec, folder: RunFolder) -> HostRanks:
        """Opens the run's view of its folder and starts its ranks."""
        _check(spec)
        _prepare_pulses(spec, folder)
        asked_ns = time.monotonic_ns()
        spec_path = (self.spec_path or folder.spec).resolve()
        visible = environment.visible(spec, user_environment())
        server = self.servers.get(spec.python, spec.cwd, visible, preload=self.preload)
        world = open_world(spec, folder, server)
        try:
            hidden = environment.hidden(spec, visible, spec_path, folder.path.resolve(), self.machine.isa_cap)
            ranks = self.ranks(Start(spec, folder, spec_path, server, visible, hidden, world, asked_ns))
        except BaseException as problem:
            seen = world.close() if world else None
            if isinstance(problem, LaunchFailed):
                problem.world = seen
            raise
        ranks.sampler = Sampler(
            folder.samples_on(node_rank_of(spec)), self.machine.cores, spec.device == "cuda", ranks.start_ns
        )
        return ranks


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


def first_rank(spec: RunSpec) -> int:
    """The global number of this node's first rank."""
    return spec.nodes.node_rank * spec.ranks if spec.nodes else 0


def node_rank_of(spec: RunSpec) -> int | None:
    """The number of this host among those of the run; None if the run has only one."""
    return spec.nodes.node_rank if spec.nodes else None


def queued_seconds(pid: int) -> float:
    """The time for which the process's main thread was ready but waited for a core; 0 if the kernel does not say.

    `psutil` does not read it.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def memory_kills() -> int:
    """Processes that the kernel has killed for lack of memory, here or in this control group, since boot."""
    counts = [0]
    for path in ("/proc/vmstat", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        counts += [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return max(counts)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text_from(path: Path, offset: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _check(spec: RunSpec) -> None:
    """Refuses what no launcher here could start."""
    script = Path(spec.script)
    if not Path(spec.cwd).is_dir():
        raise LaunchFailed(f"the working folder {spec.cwd} does not exist", "check `cwd`")
    if not script.is_file():
        beside = [path.name for path in script.parent.glob("*.py")] if script.parent.is_dir() else []
        raise LaunchFailed(
            f"the script {spec.script} does not exist",
            did_you_mean(script.name, beside) or "check the path of the script",
        )
    if spec.nodes is not None and spec.launcher == "fork":
        raise LaunchFailed("several nodes need torchrun", "add --launcher torchrun")


def _prepare_pulses(spec: RunSpec, folder: RunFolder) -> None:
    """Creates the file for signs of life of this host's ranks; it has room for those of all hosts."""
    create_pulses(folder.pulses_on(node_rank_of(spec)), spec.world_size)
