"""Launchers of this host: the fork server starts the ranks itself, or torchrun does."""

import sys
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from scalewise.errors import did_you_mean
from scalewise.launch import environment
from scalewise.launch.forkserver import Connection, ServerSource, user_environment
from scalewise.launch.host_ranks import HostRanks, ServerRanks, first_rank
from scalewise.launch.launcher import LaunchFailed
from scalewise.launch.sampler import Sampler
from scalewise.launch.torchrun import TorchrunRanks, torchrun_order
from scalewise.launch.working_folder import OpenWorld, Seat, open_world
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.records.pulse import BYTES_PER_RANK, create_pulses
from scalewise.records.spec import LauncherName, RunSpec


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
        server = self.servers.get(spec.python, spec.cwd, visible, preload=spec.launcher == "fork")
        world = open_world(spec, folder, server)
        try:
            hidden = environment.hidden(spec, visible, spec_path, folder.path.resolve(), self.machine.isa_cap)
            ranks = self.ranks(Start(spec, folder, spec_path, server, visible, hidden, world, asked_ns))
        except BaseException as problem:
            seen = world.close() if world else None
            if isinstance(problem, LaunchFailed):
                problem.world = seen
            raise
        ranks.sampler = Sampler(_samples_path(spec, folder), self.machine.cores, spec.device == "cuda", ranks.start_ns)
        return ranks


class ForkLauncher(HostLauncher):
    """Ranks are forks of a server that has imported torch."""

    def ranks(self, start: Start) -> HostRanks:
        """One order for each."""
        spec = start.spec
        ranks = ServerRanks(spec, start.folder, start.world, start.asked_ns)
        orders: dict[int, RankOrder | ExecOrder] = {}
        if spec.mode == "python":
            orders[0] = _rank_order(start, 0, start.visible)
        else:
            port, run_id = start.server.host_store(), str(uuid.uuid4())
            for rank in range(spec.ranks):
                error_file = start.out.path / f"rank{rank}.error.json"
                added = environment.torchrun_variables(spec, rank, port, run_id, error_file, start.visible)
                orders[rank] = _rank_order(start, rank, start.visible | added)
        ranks.begin(start.server, {rank: _seated(order, start.seat(rank)) for rank, order in orders.items()})
        return ranks


class TorchrunLauncher(HostLauncher):
    """Ranks are new interpreters, started by torchrun; a plain script by python itself."""

    def ranks(self, start: Start) -> HostRanks:
        """One order for all."""
        spec, variables = start.spec, start.visible | start.hidden
        if spec.mode == "torchrun":
            torchrun = TorchrunRanks(spec, start.folder, start.world, start.asked_ns)
            torchrun.begin(start.server, _seated(torchrun_order(spec, start.out, variables), start.seat(0)))
            return torchrun
        alone = ServerRanks(spec, start.folder, start.world, start.asked_ns)
        argv = (spec.python or sys.executable, spec.script, *spec.args)
        logs = str(start.out.stdout(0)), str(start.out.stderr(0))
        alone.begin(start.server, {0: _seated(ExecOrder("rank0", argv, spec.cwd, *logs, variables), start.seat(0))})
        return alone


LAUNCHERS: dict[LauncherName, type[HostLauncher]] = {"fork": ForkLauncher, "torchrun": TorchrunLauncher}


def launcher_of(
    spec: RunSpec, machine: MachineFacts, servers: ServerSource, spec_path: Path | None = None
) -> HostLauncher:
    """The one that the spec names."""
    return LAUNCHERS[spec.launcher](machine, servers, spec_path)


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
    if spec.nodes is not None and spec.launcher != "torchrun":
        raise LaunchFailed("several nodes need torchrun", "add --launcher torchrun")


def _prepare_pulses(spec: RunSpec, folder: RunFolder) -> None:
    """Creates the file for signs of life, unless another node, which shares the folder, has created it."""
    size = BYTES_PER_RANK * spec.world_size
    if spec.nodes is None or not folder.pulses.is_file() or folder.pulses.stat().st_size != size:
        create_pulses(folder.pulses, spec.world_size)


def _samples_path(spec: RunSpec, folder: RunFolder) -> Path:
    if first_rank(spec) == 0:
        return folder.samples
    assert spec.nodes is not None
    return folder.samples.with_name(f"samples.node{spec.nodes.node_rank}.jsonl")


Order = TypeVar("Order", bound=RankOrder | ExecOrder)


def _seated(order: Order, seat: Seat) -> Order:
    return replace(order, cwd=seat.cwd, view=seat.view)


def _rank_order(start: Start, rank: int, variables: dict[str, str]) -> RankOrder:
    spec, folder = start.spec, start.out
    return RankOrder(
        label=f"rank{rank}",
        script=spec.script,
        args=spec.args,
        cwd=spec.cwd,
        stdout=str(folder.stdout(rank)),
        stderr=str(folder.stderr(rank)),
        environment=variables,
        hidden=start.hidden,
        spec=str(start.spec_path),
        out=str(folder.path),
        unbuffered=spec.mode == "torchrun" or bool(variables.get("PYTHONUNBUFFERED")),
    )
