"""A Slurm of this machine's own: a controller and some hosts on its loopback; `make cluster` starts one for people.

    python tests/slurm_cluster.py start FOLDER [HOSTS]
    python tests/slurm_cluster.py stop FOLDER

It needs root, `slurmctld`, `slurmd` and `munged` (Debian: apt-get install slurm-wlm munge). Nothing of the machine is
changed: every file, port and key is the cluster's own, so several of them can stand beside each other.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "squeue", "scancel")
START_SECONDS = 30.0
CONFIGURATION = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ReturnToService=0
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmctldParameters=node_reg_mem_percent=0
InactiveLimit=0
KillWait=5
MinJobAge=300
Waittime=0
SlurmctldTimeout=10
SlurmdTimeout=10
RequeueExit=75
JobRequeue=1
NodeName=n[1-{hosts}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} RealMemory=4000
PartitionName=main Nodes=n[1-{hosts}] Default=YES MaxTime=60 State=UP OverSubscribe=NO
PartitionName=short Nodes=n1 MaxTime=1 State=UP OverSubscribe=NO
PartitionName=apart Nodes=n{hosts} MaxTime=60 State=UP OverSubscribe=NO
"""


class NoCluster(Exception):
    """The error for a cluster that cannot be started here: not the fault of whoever wanted to use it."""


def missing() -> list[str]:
    """What a cluster needs and this machine lacks; empty if one can be started."""
    absent = [name for name in PROGRAMS if _found(name) is None]
    return absent + ([] if os.geteuid() == 0 else ["root"])


def can_hide() -> bool:
    """Tells whether a host may have a folder of its own in place of a shared one."""
    try:
        return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    folder: Path
    hosts: int

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the variable by which Slurm's commands find the cluster."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        return outside | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *words: str) -> str:
        """The output of one of Slurm's commands."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def start_host(self, number: int, hides: Path | None = None) -> None:
        """Starts one of the hosts; it has a folder of its own in place of one that it is to hide from its jobs."""
        words = [_found("slurmd") or "", "-N", f"n{number}"]
        if hides is not None:
            words = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {hides} && exec {' '.join(words)}"]
        subprocess.run(words, env=self.environment, check=True, timeout=START_SECONDS)

    def kill_host(self, number: int) -> None:
        """Kills a host at once, with everything that runs on it."""
        for child in _tree(int((self.folder / f"slurmd.n{number}.pid").read_text())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def idle(self) -> bool:
        """Tells whether every host is idle."""
        states = self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%t").split()
        return states == ["idle"] * self.hosts

    def quiet(self) -> bool:
        """Tells whether no step runs any more, also none of which the controller has lost sight."""
        return not _stepds(str(self.folder))

    def stop(self) -> None:
        """Ends all daemons with everything that they have started."""
        for name in [f"slurmd.n{number}" for number in range(1, self.hosts + 1)] + ["slurmctld", "munged"]:
            with contextlib.suppress(OSError, ValueError):
                pids = _tree(int((self.folder / f"{name}.pid").read_text()))
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        for pid in _stepds(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def start(folder: Path, hosts: int, cpus: int = 2, last_hides: Path | None = None) -> Cluster:
    """Starts a cluster in this folder, and returns when all hosts are idle; the last one may not share a folder."""
    absent = missing()
    if absent:
        raise NoCluster(f"a cluster needs {', '.join(absent)}")
    folder = folder.resolve()
    cluster = Cluster(folder, hosts)
    try:
        _configure(cluster, cpus)
        _begin(cluster, last_hides)
    except (OSError, subprocess.SubprocessError, NoCluster) as problem:
        cluster.stop()
        said = [line for log in sorted(folder.glob("*.log")) for line in log.read_text(errors="replace").splitlines()]
        errors = [line for line in said if "error" in line or "fatal" in line][-1:]
        raise NoCluster(" ".join((f"the daemons do not come up ({problem}).", *errors))) from None
    return cluster


def _configure(cluster: Cluster, cpus: int) -> None:
    """Writes the key and the configuration."""
    folder, hosts = cluster.folder, cluster.hosts
    (folder / "state").mkdir(parents=True, exist_ok=True)
    port, *others = _free_ports(hosts + 1)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    text = CONFIGURATION.format(
        host=socket.gethostname(), folder=folder, port=port, hosts=hosts, first=others[0], last=others[-1], cpus=cpus
    )
    (folder / "slurm.conf").write_text(text)


def _begin(cluster: Cluster, last_hides: Path | None) -> None:
    """Starts the daemons, and returns when all hosts are idle."""
    folder, hosts = cluster.folder, cluster.hosts
    subprocess.run(
        [_found("munged") or "", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
         f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
         "--force"],
        check=True, capture_output=True, timeout=START_SECONDS,
    )  # fmt: skip
    subprocess.run([_found("slurmctld") or "", "-c"], env=cluster.environment, check=True, timeout=START_SECONDS)
    for number in range(1, hosts + 1):
        cluster.start_host(number, last_hides if number == hosts else None)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(RuntimeError):
            if cluster.idle():
                return
        time.sleep(0.1)
    raise NoCluster(f"no host was idle within {START_SECONDS:.0f} s")


@contextlib.contextmanager
def cluster_in(folder: Path, hosts: int, cpus: int = 2, last_hides: Path | None = None) -> Iterator[Cluster]:
    """A cluster that is stopped at the end."""
    cluster = start(folder, hosts, cpus, last_hides)
    try:
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    """A free port, and a row of others: Slurm wants the hosts' ports in a row."""
    for first in range(17000 + os.getpid() % 500 * 20, 60000, 20):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return list(range(first, first + count))
    raise RuntimeError("no row of free ports")


def _found(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _tree(pid: int) -> list[int]:
    """A process and all that it has started."""
    import psutil

    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def _stepds(folder: str) -> list[int]:
    """Step daemons of this cluster, which leave their parent and have its folder, with what they run."""
    import psutil

    found = []
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if process.info["name"] == "slurmstepd" and process.cwd().startswith(folder):
                found += _tree(process.pid)
    return found


def main() -> None:
    """Starts or stops a cluster from the command line."""
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "start":
        hosts = int(sys.argv[3]) if len(sys.argv) > 3 else 3
        cluster = start(folder, hosts)
        print(f"{hosts} hosts are idle. To use them:  export SLURM_CONF={cluster.folder}/slurm.conf")
    else:
        Cluster(folder.resolve(), 99).stop()


if __name__ == "__main__":
    main()
