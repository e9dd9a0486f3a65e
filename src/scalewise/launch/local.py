"""Starts ranks by the fork server itself, and lists all launchers."""

import uuid
from collections.abc import Callable
from typing import ClassVar

from scalewise.launch import environment
from scalewise.launch.forkserver import ServerSource
from scalewise.launch.host_ranks import HostLauncher, HostRanks, ServerRanks, Start
from scalewise.launch.launcher import Launcher
from scalewise.launch.slurm.step import SlurmLauncher
from scalewise.launch.torchrun import TorchrunLauncher
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
        ranks.begin(start.server, {rank: start.seated(order, rank) for rank, order in orders.items()})
        return ranks


LAUNCHERS: dict[LauncherName, Callable[[MachineFacts, ServerSource], Launcher]] = {
    "fork": ForkLauncher,
    "torchrun": TorchrunLauncher,
    "slurm": SlurmLauncher,
}


def launcher_of(spec: RunSpec, machine: MachineFacts, servers: ServerSource) -> Launcher:
    """The one that the spec names."""
    return LAUNCHERS[spec.launcher](machine, servers)


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
