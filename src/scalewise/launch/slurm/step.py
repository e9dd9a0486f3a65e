"""Makes a run inside an allocation: one `srun` step, in which each host makes its part of the run."""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.launch.failure_logs import last_lines, tail
from scalewise.launch.forkserver import Connection, ServerDied, ServerSource, user_environment
from scalewise.launch.host_part import HostPart, host_name, take_part
from scalewise.launch.hosts import HostsRanks
from scalewise.launch.launcher import HostLost, HostOutOfMemory, LaunchFailed
from scalewise.launch.slurm.queue import SlurmSilent, host_address, host_names
from scalewise.records.codec import read_json
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.orders import ExecOrder
from scalewise.records.outcome import World
from scalewise.records.spec import RunSpec

LABEL = "srun"
_END_SECONDS = 1.0  # from the end of the ranks to that of their step
_LAST_WORDS_SECONDS = 5.0  # likewise, if Slurm has more to say: why a rank was killed
_PLACE = "SCALEWISE_PART"  # run folder, attempt and address of the first host, for the hosts of a step
_LOST = re.compile(r"Node failure on (\S+)|NODE FAILURE|[Nn]ode (\S+) (?:failed|not responding)")
_OUT_OF_TIME = re.compile(r"DUE TO TIME LIMIT")
_CANCELLED = re.compile(r"CANCELLED AT")
# `slurmstepd: error: Detected 2 oom_kill events in StepId=7.1`, `srun: error: n1: task 0: Out Of Memory`; until
# release 21.08 `oom-kill event(s)`.
_MEMORY_KILLS = re.compile(r"[Dd]etected (\d+) oom[_-]kill event|(Out Of Memory|OOM Killed)")
_PREEMPTED = re.compile(r"DUE TO (PREEMPTION|JOB REQUEUE)")


@dataclass(frozen=True)
class Allocation:
    """The job that this process runs in."""

    job_id: int
    hosts: tuple[str, ...]
    restarts: int = 0


def allocation_here(variables: Mapping[str, str]) -> Allocation | None:
    """The allocation of this process by its environment; None outside of any."""
    number = variables.get("SLURM_JOB_ID", "")
    hosts = variables.get("SLURM_JOB_NODELIST", "")
    if not number.isdecimal() or not hosts:
        return None
    restarts = variables.get("SLURM_RESTART_COUNT", "")
    return Allocation(int(number), host_names(hosts), int(restarts) if restarts.isdecimal() else 0)


@dataclass(frozen=True)
class SlurmLauncher:
    """Ranks are started by torchrun on each host of a step; a fork server starts `srun`, so that it cannot be left."""

    machine: MachineFacts
    servers: ServerSource

    def start(self, spec: RunSpec, folder: RunFolder) -> HostsRanks:
        """Starts one step on the first hosts of the allocation, the same ones for every run."""
        assert spec.nodes is not None
        try:
            allocation = allocation_here(os.environ)
            if allocation is None:
                raise LaunchFailed("this process is in no allocation of Slurm", "start it with sbatch or salloc")
            if spec.nodes.count > len(allocation.hosts):
                said = f"{spec.nodes.count} hosts were asked for and the allocation has {len(allocation.hosts)}"
                raise LaunchFailed(said, "ask for more: salloc --nodes")
            hosts = allocation.hosts[: spec.nodes.count]
            address = host_address(hosts[0])
        except (BadRequest, SlurmSilent) as problem:
            raise LaunchFailed(
                f"Slurm does not say which hosts there are: {problem}", "run the same command again"
            ) from None
        server = self.servers.get("", spec.cwd, user_environment(), preload=False)
        ranks = _StepRanks(spec, folder, server)
        log = str(ranks.log.resolve())
        place = "\n".join((str(folder.path.resolve()), ranks.attempt, address))
        environment = user_environment() | {_PLACE: place}
        server.order(ExecOrder(LABEL, step_command(hosts, spec.cwd), spec.cwd, log, log, environment))
        return ranks


def step_command(hosts: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """The `srun` that starts one process on each host, with all that the job has there."""
    count = len(hosts)
    return (
        "srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={','.join(hosts)}",
        "--overlap", "--mem=0", "--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL", "--unbuffered", "--label",
        f"--chdir={cwd}", sys.executable, "-m", "scalewise.launch.slurm.step",
    )  # fmt: skip


class _StepRanks(HostsRanks):
    """The ranks of a step; `srun` says when it is over, or a host has failed."""

    def __init__(self, spec: RunSpec, folder: RunFolder, server: Connection) -> None:
        super().__init__(spec, folder)
        self.log = folder.path / "srun.log"
        self._server = server
        self._status: int | None = None

    @property
    def memory_kills(self) -> int:
        """The number of processes killed for lack of memory: by what the hosts' kernels say, or else Slurm.

        A kernel may not show a job what it kills. Slurm says it when the step ends, so a killed rank waits for that.
        """
        counted = super().memory_kills
        if counted or all(one.signal != "SIGKILL" for one in self.exits.values()):
            return counted
        self._await_step(_LAST_WORDS_SECONDS)
        return memory_kills_in(tail(self.log))

    def check(self) -> None:
        """Raises `LaunchFailed` with what `srun` has said, if the step has ended and ranks had not."""
        self._hear()
        if self._status is not None and not self._read() and not self.over:
            raise step_problem(tail(self.log), self._status)

    def end(self) -> None:
        """Ends the ranks; what `srun` printed stays only if it says something, as it does last of all."""
        super().end()
        self._await_step(_END_SECONDS)
        if self._status is not None and self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def close(self) -> World | None:
        """Ends the step as well."""
        try:
            return super().close()
        finally:
            with contextlib.suppress(LaunchFailed):  # Slurm ends the server, too, when it ends a job
                self._server.clean()

    def _await_step(self, seconds: float) -> None:
        """Waits for the end of the step, which follows that of its ranks."""
        end = time.monotonic() + seconds
        self._hear()
        while self._status is None and time.monotonic() < end:
            time.sleep(0.05)
            self._hear()

    def _hear(self) -> None:
        try:
            for event in self._server.events(0.0):
                if event["label"] == LABEL and event["event"] == "ended":
                    self._status = event["code"]
        except ServerDied:  # Slurm ends every process of a job
            self._status = self._status if self._status is not None else -signal.SIGTERM

    def _all_closed(self) -> bool:
        self._hear()
        return self._status is not None or super()._all_closed()


def step_problem(log: str, status: int) -> LaunchFailed:
    """The error for a step that ended before its ranks, in words."""
    lost = _LOST.search(log)
    if lost:
        name = lost[1] or lost[2] or "a host"
        return HostLost(f"{name} failed while the run was made (Slurm: node failure)", "the run is made again")
    if _OUT_OF_TIME.search(log):
        return HostLost("the time of the job was over", "the same command makes the rest in a new job")
    if memory_kills_in(log):
        return HostOutOfMemory(
            "the ranks used more memory than the job was given: Slurm ended their step",
            "ask for more with --slurm mem=..., or let the script need less",
        )
    if _PREEMPTED.search(log):
        return HostLost("the job was preempted or requeued", "the run is made again when the job runs again")
    if _CANCELLED.search(log) or status == -signal.SIGTERM:
        return HostLost("the job or its step was cancelled", "the same command makes the rest in a new job")
    lines = last_lines(log)
    missing = re.search(r"chdir\((.*?)\)|couldn't chdir to `(.*?)'", log)
    if missing:
        folder = missing[1] or missing[2]
        return LaunchFailed(f"a host does not have the folder {folder}", "all hosts must share the working folder")
    return LaunchFailed(
        f"srun ended with {status}: {lines[-1] if lines else 'it said nothing'}",
        "srun.log in the run's folder says more",
    )


def memory_kills_in(log: str) -> int:
    """The number of processes that were killed for lack of memory, by what `srun` has said."""
    return sum(int(one[1] or 1) for one in _MEMORY_KILLS.finditer(log))


def make_part() -> None:
    """Makes this host's part; `srun` starts one such process on each host of the step."""
    from scalewise.launch.forkserver import Servers
    from scalewise.launch.local import TorchrunLauncher
    from scalewise.launch.this_machine import facts_like

    told: list[int] = []  # signals by which Slurm ends a job
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    path, attempt, address = os.environ.pop(_PLACE).split("\n")
    folder, node_rank = RunFolder(Path(path)), int(os.environ["SLURM_NODEID"])
    if not folder.spec.is_file():
        sys.exit(f"scalewise: {host_name()} does not see {path}: the folder of the runs (--out) must be shared")
    with Servers() as servers:
        machine = facts_like(read_json(folder.machine, MachineFacts), servers)
        part = HostPart(folder, attempt, node_rank, host_name(), machine, address)
        take_part(part, TorchrunLauncher(machine, servers, folder.spec_on(node_rank)), lambda: bool(told))


if __name__ == "__main__":
    make_part()
