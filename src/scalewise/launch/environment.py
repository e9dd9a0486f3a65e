"""Makes the variables of a run's ranks: those the script sees, as torchrun sets them, and those it does not see."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

import scalewise
from scalewise.records.spec import RunSpec

INJECT = str(Path(scalewise.__file__).resolve().parent / "watch" / "inject")
SPEC = "SCALEWISE_SPEC"
OUT = "SCALEWISE_OUT"
HIDE = "SCALEWISE_HIDE"
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
# Iterations of the loop in which a thread of libgomp waits before it sleeps. By default it spins for 6 to 9 ms after
# every parallel loop, on the cores that gloo needs: decision 0014 has the figures.
SPINS, WAITING = "1000", ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def visible(spec: RunSpec, user: Mapping[str, str]) -> dict[str, str]:
    """The user's variables overridden by those of the run, the same under every launcher."""
    variables = dict(user)
    if spec.device == "cpu" and not _believes_in_gpus(spec):
        variables["CUDA_VISIBLE_DEVICES"] = ""
    elif spec.device == "cuda" and spec.devices and not spec.stand_ins:
        there = variables.get("CUDA_VISIBLE_DEVICES", "").split(",")
        first = there if there != [""] else [str(index) for index in range(spec.devices)]
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(first[: spec.devices])
    if spec.mode == "torchrun":
        if spec.threads_per_rank is not None:
            variables["OMP_NUM_THREADS"] = str(spec.threads_per_rank)
            if spec.device == "cpu" and spec.threads_per_rank > 1 and not set(WAITING) & {*user, *spec.env}:
                variables["GOMP_SPINCOUNT"] = SPINS
        elif spec.ranks > 1:
            variables.setdefault("OMP_NUM_THREADS", "1")
    return variables | spec.env


def hidden(spec: RunSpec, visible: Mapping[str, str], spec_path: Path, out: Path, isa_cap: str) -> dict[str, str]:
    """Variables that only native libraries and child processes see: they load the watcher and guard the measurement."""
    guards = {}
    if "GLOO_SOCKET_IFNAME" not in visible:
        several = spec.nodes is not None and spec.nodes.count > 1
        guards["GLOO_SOCKET_IFNAME"] = interface_to(spec.nodes.master_address) if several and spec.nodes else "lo"
    if isa_cap and "ONEDNN_MAX_CPU_ISA" not in visible:
        guards["ONEDNN_MAX_CPU_ISA"] = isa_cap
    if _believes_in_gpus(spec) and "CUDA_VISIBLE_DEVICES" not in visible:
        guards["CUDA_VISIBLE_DEVICES"] = ""  # the script is to see GPUs; the libraries must find none
    users_path = visible.get("PYTHONPATH", "")
    guards = {name: value for name, value in guards.items() if value or name == "CUDA_VISIBLE_DEVICES"}
    return guards | {
        SPEC: str(spec_path),
        OUT: str(out),
        HIDE: ",".join(guards),
        "PYTHONPATH": INJECT + (os.pathsep + users_path if users_path else ""),
    }


def interface_to(address: str) -> str:
    """The network interface by which packets leave for that host; empty if it cannot be told.

    Left to itself, gloo takes the address that the host's own name means, which on many systems is 127.0.1.1.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing
            own = probe.getsockname()[0]
    except OSError:
        return ""
    found = [name for name, known in psutil.net_if_addrs().items() if any(one.address == own for one in known)]
    return found[0] if found else ""


def _believes_in_gpus(spec: RunSpec) -> bool:
    """Tells whether the CPU replaces what the script takes for GPUs."""
    return spec.on_cpu or (spec.stand_ins and spec.device == "cpu")


def torchrun_variables(
    spec: RunSpec, rank: int, port: int, run_id: str, error_file: Path, user: Mapping[str, str]
) -> dict[str, str]:
    """The variables that `torchrun --standalone` adds for a rank on a single node."""
    size = node_size = str(spec.ranks)
    number = local = str(rank)
    group, groups = "0", "1"
    if spec.rehearsed is not None:
        # The rank that it stands for; its device is one that is here.
        stands_for, per_node = spec.rehearsed.rank + rank, spec.rehearsed.ranks_per_node
        size, number = str(spec.rehearsed.world_size), str(stands_for)
        node_size = str(min(per_node, spec.rehearsed.world_size))
        group, groups = str(stands_for // per_node), str(-(-spec.rehearsed.world_size // per_node))
    return {
        "TORCHELASTIC_SIGNALS_TO_HANDLE": _SIGNALS,
        "RANK": number,
        "LOCAL_RANK": local,
        "GROUP_RANK": group,
        "ROLE_RANK": number,
        "ROLE_NAME": "default",
        "LOCAL_WORLD_SIZE": node_size,
        "WORLD_SIZE": size,
        "GROUP_WORLD_SIZE": groups,
        "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": user.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "TORCHELASTIC_ERROR_FILE": str(error_file),
    }
