"""Makes one host's part of a run; a step of `srun` starts one such process on each host, before all else is begun.

What is imported here is paid on every host before torchrun starts, so it imports no more than it needs.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from scalewise.launch.forkserver import Connection, ForkedServer, Servers
from scalewise.launch.host_part import HostPart, host_name, take_part
from scalewise.launch.this_machine import facts_like
from scalewise.launch.torchrun import TorchrunLauncher
from scalewise.records.codec import read_json
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts

PLACE = "SCALEWISE_PART"  # run folder, attempt and address of the first host


class _OwnServer:
    """Gives torchrun's launcher a server that is there already."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def get(self, python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> Connection:
        """Returns the server: it only starts programs, which have their folder and environment from their orders."""
        return self._server


def make_part() -> None:
    """Makes this host's part and ends when nothing of it is left."""
    told: list[int] = []  # signals by which Slurm ends a job
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    path, attempt, address = os.environ.pop(PLACE).split("\n")
    folder, node_rank = RunFolder(Path(path)), int(os.environ["SLURM_NODEID"])
    if not folder.spec.is_file():
        sys.exit(f"scalewise: {host_name()} does not see {path}: the folder of the runs (--out) must be shared")
    with ForkedServer() as server, Servers() as servers:
        machine = facts_like(read_json(folder.machine, MachineFacts), servers)
        part = HostPart(folder, attempt, node_rank, host_name(), machine, address)
        launcher = TorchrunLauncher(machine, _OwnServer(server), folder.spec_on(node_rank))
        take_part(part, launcher, lambda: bool(told))


if __name__ == "__main__":
    make_part()
