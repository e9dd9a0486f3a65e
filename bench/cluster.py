"""Runs on two hosts of a Slurm on this machine's loopback: what scalewise adds to a start, and to a step; and kills.

The cluster is started for the benchmark and stopped after it (root, slurm-wlm and munge are needed). Its hosts share
this machine's cores, so only the ratios of the two sides mean something; they take turns in one job. `--kills N`
ends the follower, the campaign in the job or a rank by SIGKILL at random moments, N times, and counts what was lost.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil

from bench.ratios import median_with_interval
from bench.runs import made, run_spec
from scalewise.errors import BadRequest
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.spec import Nodes

SCRIPT = Path(__file__).parent / "scripts" / "two_hosts.py"
STEPS, WIDTH = 200, 384  # a step of about 5 ms on a core
START_GOAL, STEP_GOAL = 1.05, 1.01
RUNS_OF_SUITE = 4


def run(quick: bool, cuda: bool, kills: int = 0) -> dict[str, object]:
    """Prints the tables and gives the figures back."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from slurm_cluster import Cluster, NoCluster, cluster_in, missing

    if missing():
        raise BadRequest(f"A cluster needs {', '.join(missing())}.", "Debian: apt-get install slurm-wlm munge.")
    with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        place = Path(folder)
        try:
            with cluster_in(place / "cluster", hosts=3) as cluster:
                cluster: Cluster
                results = _turns(cluster.environment, place, 3 if quick else 15) if not kills or not quick else {}
                return results | (_kills(cluster.environment, place, kills) if kills else {})
        except NoCluster as problem:
            raise BadRequest(f"No Slurm can be started here: {problem}", "") from None


def _turns(environment: dict[str, str], place: Path, rounds: int) -> dict[str, object]:
    """Both sides in one allocation: this file itself runs in it."""
    words = ["salloc", "-Q", "-N2", "--exclusive", sys.executable, "-m", "bench.cluster", str(place), str(rounds)]
    subprocess.run(words, env=environment, check=True, cwd=Path(__file__).parent.parent)
    seconds = json.loads((place / "turns.json").read_text())
    print(f"\nTwo hosts of a loopback Slurm, one rank each, {rounds} rounds taking turns")
    results: dict[str, object] = {"rounds": rounds, "seconds": seconds}
    for what, goal in (("to the first step", START_GOAL), ("a step", STEP_GOAL)):
        plain, watched = seconds[f"plain {what}"], seconds[f"scalewise {what}"]
        ratio = median_with_interval([one / other for one, other in zip(watched, plain, strict=True)])
        middle = [1e3 * sorted(values)[len(values) // 2] for values in (plain, watched)]
        said = f"srun + torchrun {middle[0]:.1f} ms, scalewise {middle[1]:.1f} ms"
        print(f"{what:<20}{said:<55}ratio {ratio.text()}, goal at most {goal}")
        results[what] = ratio.plain()
    return results


def take_turns(place: Path, rounds: int) -> None:
    """Makes the rounds; runs inside the allocation."""
    found: dict[str, list[float]] = {}
    with Servers() as servers:
        machine = machine_facts(servers)
        for number in range(-1, rounds):  # the first is not counted: it starts the server, and fills the page cache
            for side in ("plain", "scalewise") if number % 2 else ("scalewise", "plain"):
                began = time.time()
                if side == "plain":
                    said = _plain(place)
                else:
                    spec = run_spec(SCRIPT, (str(STEPS), str(WIDTH)), f"r{number}", machine, launcher="slurm")
                    spec = replace(spec, nodes=Nodes(2, 0, "", 0), shares=(), ranks=1, limit_seconds=120.0)
                    made([spec], place / "runs", machine, servers)
                    said = json.loads(RunFolder(place / "runs" / spec.name).stdout(0).read_text())
                if number >= 0:
                    found.setdefault(f"{side} to the first step", []).append(said["first"] - began)
                    found.setdefault(f"{side} a step", []).append(said["median"])
    (place / "turns.json").write_text(json.dumps(found))


def _plain(place: Path) -> dict[str, float]:
    """The same as a user would type it."""
    port = 21000 + random.randrange(20000)
    torchrun = (
        f"exec {sys.executable} -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --node-rank=$SLURM_NODEID "
        f"--master-addr=127.0.0.1 --master-port={port} {SCRIPT} {STEPS} {WIDTH}"
    )
    words = ["srun", "-N2", "-n2", "--overlap", "--cpu-bind=none", "--kill-on-bad-exit=1", "bash", "-c", torchrun]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": _cap()}
    environment = {name: value for name, value in environment.items() if value}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, cwd=place)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"srun failed: {done.stderr[-500:]}")
    return dict(json.loads(lines[-1]))


def _cap() -> str:
    with Servers() as servers:
        return machine_facts(servers).isa_cap


def _kills(environment: dict[str, str], place: Path, kills: int) -> dict[str, object]:
    """Kills parts of a command, starts it again, and counts what was lost or made twice."""
    chance = random.Random(kills)  # another number of kills falls on other moments
    tally: Counter[str] = Counter()
    number = 0
    while sum(tally[one] for one in ("follower", "campaign", "rank")) < kills:
        number += 1
        folder = place / f"kills{number}"
        folder.mkdir()
        _suite(folder)
        _one_suite(environment, folder, chance, tally, kills)
    print(f"\n{kills} kills over {number} suites of {RUNS_OF_SUITE} runs: {dict(tally)}")
    print(
        f"finished runs lost: {tally['lost']}; measured twice: {tally['twice']}; suites not completed: {tally['stuck']}"
    )
    return {"kills": dict(tally)}


def _suite(folder: Path) -> None:
    """Runs without torch: what is tested is who keeps them, and they take no time of others."""
    (folder / "sleeps.py").write_text(
        "import pathlib, sys, time\n"
        "log = open(pathlib.Path(__file__).with_name('said.log'), 'a')\n"
        "print('began', sys.argv[1], file=log, flush=True)\ntime.sleep(0.6)\n"
        "print('ended', sys.argv[1], file=log, flush=True)\n"
    )
    tables = [
        f'[[experiment]]\nname = "e{one}"\nscript = "sleeps.py"\nmode = "python"\nargs = ["e{one}"]\n'
        for one in range(RUNS_OF_SUITE)
    ]
    (folder / "s.toml").write_text('name = "s"\n' + "".join(tables))


def _one_suite(
    environment: dict[str, str], folder: Path, chance: random.Random, tally: Counter[str], kills: int
) -> None:
    kept: dict[str, bytes] = {}
    begun: dict[str, int] = {}  # how often each had begun when its outcome was there
    for _ in range(60):  # starts of the command
        command = [sys.executable, "-m", "scalewise", "run", "s.toml", "--launcher", "slurm"]
        with open(folder / "log", "ab") as log:
            follower = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        while follower.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                follower.wait(chance.uniform(0.3, 4.0))
            if follower.poll() is None and sum(tally[one] for one in ("follower", "campaign", "rank")) < kills:
                _kill(chance.choice(("follower", "campaign", "rank")), follower, folder, tally)
            _keep(folder, kept, begun, tally)
        follower.wait()
        if len(kept) == RUNS_OF_SUITE:
            break
    else:
        tally["stuck"] += 1
    tally["twice"] += sum(_begun(folder, name) > count for name, count in begun.items())


def _kill(what: str, follower: "subprocess.Popen[bytes]", folder: Path, tally: Counter[str]) -> None:
    """Kills the follower, or one process of its job."""
    if what == "follower":
        follower.kill()
        tally[what] += 1
        return
    wanted = "sleeps.py" if what == "rank" else "-m scalewise run s.toml"
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.info["cmdline"] or [])
            if wanted in words and process.pid != follower.pid and process.cwd() == str(folder):
                process.send_signal(signal.SIGKILL)
                tally[what] += 1
                return


def _begun(folder: Path, name: str) -> int:
    """How often the script of this run has begun."""
    log = folder / "said.log"  # missing if the first script was killed before its first word
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(line == f"began {name.partition('-')[0]}" for line in lines)


def _keep(folder: Path, kept: dict[str, bytes], begun: dict[str, int], tally: Counter[str]) -> None:
    """Remembers outcomes that are results, and counts those that have gone or changed."""
    now: dict[str, bytes] = {}
    for suite in (folder / "runs").glob("s-*"):
        for one in SuiteFolder(suite).runs():
            with contextlib.suppress(OSError):
                data = one.outcome.read_bytes()
                if json.loads(data)["kind"] not in ("interrupted", "not_started"):
                    now[one.path.name] = data
    tally["lost"] += sum(now.get(name) != data for name, data in kept.items())
    begun.update({name: _begun(folder, name) for name in now if name not in begun})
    kept.update(now)


if __name__ == "__main__":
    take_turns(Path(sys.argv[1]), int(sys.argv[2]))
