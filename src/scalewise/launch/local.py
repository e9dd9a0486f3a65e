"""Launchers of this host: the fork server starts the ranks itself, or torchrun does."""

import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, TypeVar

from scalewise.launch import environment
from scalewise.launch.forkserver import ServerSource
from scalewise.launch.host_ranks import HostLauncher, HostRanks, ServerRanks, Start
from scalewise.launch.launcher import Launcher
from scalewise.launch.slurm.step import SlurmLauncher
from scalewise.launch.torchrun import TorchrunRanks, torchrun_order
from scalewise.launch.working_folder import Seat
from scalewise.records.machine import MachineFacts
from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.records.spec import LauncherName, RunSpec


class ForkLauncher(HostLauncher):
    """Ranks are forks of a server that has imported torch."""

    preload: ClassVar[bool] = True

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


LAUNCHERS: dict[LauncherName, Callable[[MachineFacts, ServerSource], Launcher]] = {
    "fork": ForkLauncher,
    "torchrun": TorchrunLauncher,
    "slurm": SlurmLauncher,
}


def launcher_of(spec: RunSpec, machine: MachineFacts, servers: ServerSource) -> Launcher:
    """The one that the spec names."""
    return LAUNCHERS[spec.launcher](machine, servers)


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
