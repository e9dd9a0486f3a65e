"""What a further run costs: two ranks of a tiny training, by the fork launcher, by torchrun, and by torchrun alone.

By the fork launcher it is made twice: in the folder itself, as scripts of the course are, and in a private view of it,
as a user's script is.

The servers are up before the first timed run, as they are for every run of a suite but its first. Each round makes one
run of each kind; the figure is the whole run from the request to its end, training included.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.ratios import median_with_interval
from bench.runs import made, run_spec
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.experiment import subject_folder
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import FolderUse, LauncherName

SCRIPT = subject_folder() / "linear.py"
ARGS = ("--dim", "32", "--batch", "8", "--steps", "30")
GOAL = 15.0
ABORT_AT_EXIT = "terminate called without an active exception"


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints the table and gives the figures back."""
    rounds = 3 if quick else 12
    seconds: dict[str, list[float]] = {"fork": [], "fork, private": [], "torchrun": [], "torchrun alone": []}
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        machine = machine_facts(servers)
        _timed("fork", -1, Path(folder), machine, servers)  # starts the server
        for number in range(rounds):
            for launcher in ("fork", "torchrun"):
                seconds[launcher].append(_timed(launcher, number, Path(folder), machine, servers))
            private = _timed("fork", number, Path(folder), machine, servers, "private")
            seconds["fork, private"].append(private)
            seconds["torchrun alone"].append(_alone(machine))
    return _table(seconds, rounds)


def _timed(
    launcher: LauncherName,
    number: int,
    folder: Path,
    machine: MachineFacts,
    servers: Servers,
    folder_use: FolderUse = "plain",
) -> float:
    name = f"{launcher}-{folder_use}-{number}"
    spec = run_spec(SCRIPT, ARGS, name, machine, ranks=2, launcher=launcher, folder_use=folder_use)
    start = time.perf_counter()
    made([spec], folder, machine, servers)
    return time.perf_counter() - start


def _alone(machine: MachineFacts) -> float:
    """The same script under torchrun, with nothing of scalewise near it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SCRIPT)]
    cap = {"ONEDNN_MAX_CPU_ISA": machine.isa_cap} if machine.isa_cap else {}
    start = time.perf_counter()
    done = subprocess.run([*command, *ARGS], env={**os.environ, **cap}, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode and ABORT_AT_EXIT not in done.stderr:  # torch's gloo may abort when all work is done
        raise RuntimeError(f"torchrun failed: {done.stderr[-500:]}")
    return seconds


def _table(seconds: dict[str, list[float]], rounds: int) -> dict[str, object]:
    print(f"\nCost of a further run of two ranks, {rounds} rounds taking turns")
    print(f"{'launcher':<16}{'median':>10}   {'times the fork launcher [95 %]':<30}")
    results: dict[str, object] = {"goal": GOAL, "seconds": seconds}
    for name, values in seconds.items():
        ratio = median_with_interval([one / fork for one, fork in zip(values, seconds["fork"], strict=True)])
        text = "" if name == "fork" else ratio.text()
        print(f"{name:<16}{sorted(values)[len(values) // 2]:>8.2f} s   {text:<30}")
        results[name] = ratio.plain()
    print(f"goal: torchrun at least {GOAL:g} times the fork launcher")
    return results
