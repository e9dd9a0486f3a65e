"""Runs a script raw or watched in ranks forked from one preloaded process, and reads back what came of it."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder
from scalewise.records.load import RankRows, read_rows
from scalewise.records.pulse import create_pulses
from scalewise.records.spec import Change, RunSpec

SCRIPTS = Path(__file__).parent / "scripts"
DEADLINE_SECONDS = 35.0
ABORT_AT_EXIT = "terminate called without an active exception"
# Some CPUs advertise bfloat16 instructions that kill the process; both sides of every comparison avoid them.
SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ran:
    """What one run left behind, by rank."""

    codes: tuple[int | None, ...]
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]
    cwd: Path
    out: RunFolder

    def rows(self, rank: int = 0) -> RankRows:
        """What the watcher wrote for that rank."""
        return read_rows(self.out.rank(rank))


@dataclass
class Runner:
    """Starts scripts from the preloaded process, each run in a folder of its own."""

    folder: Path
    server: subprocess.Popen[str]
    runs: int = 0

    def raw(self, script: str, *args: str, ranks: int = 0) -> Ran:
        """The script alone; no ranks means a plain python process."""
        return self._run(lambda: self._request(script, args, ranks))

    def watched(self, script: str, *args: str, ranks: int = 0, sabotage: str = "", **changes: object) -> Ran:
        """The script with the watcher in every rank; `sabotage` is code that breaks the watcher first."""

        def request() -> dict[str, Any]:
            asked = self._request(script, args, ranks)
            spec = prepare(RunFolder(Path(asked["out"])), script, args, Path(asked["cwd"]), ranks, changes)
            return {**asked, "spec": str(spec), "sabotage": sabotage}

        return self._run(request)

    def in_folder(self, cwd: Path, script: str) -> Ran:
        """The script alone, in a folder that another run left behind."""
        return self._run(lambda: {**self._request(script, (), 0), "cwd": str(cwd)})

    def _request(self, script: str, args: tuple[str, ...], ranks: int) -> dict[str, Any]:
        """A raw run, in folders of its own."""
        self.runs += 1
        home = self.folder / f"run{self.runs}"
        for name in ("out", "cwd"):
            (home / name).mkdir(parents=True)
        numbers = range(max(1, ranks))
        return {
            "script": str(SCRIPTS / script),
            "args": list(args),
            "cwd": str(home / "cwd"),
            "ranks": len(numbers),
            "environment": environments(ranks),
            "spec": None,
            "out": str(home / "out"),
            "deadline": DEADLINE_SECONDS,
            "stdout": [str(home / f"stdout{rank}") for rank in numbers],
            "stderr": [str(home / f"stderr{rank}") for rank in numbers],
        }

    def _run(self, request: Callable[[], dict[str, Any]]) -> Ran:
        """Runs again, twice at most, after gloo's own abort or hang at interpreter exit, which raw ranks suffer too."""
        for _ in range(3):
            ran = self._run_once(request())
            if None not in ran.codes and not any(ABORT_AT_EXIT in text for text in ran.stderr):
                break
        return ran

    def _run_once(self, request: dict[str, Any]) -> Ran:
        codes = self._ask(request)
        stdout, stderr = (tuple(Path(path).read_text() for path in request[name]) for name in ("stdout", "stderr"))
        return Ran(tuple(codes), stdout, stderr, Path(request["cwd"]), RunFolder(Path(request["out"])))

    def _ask(self, request: dict[str, Any]) -> list[int | None]:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        ready, _, _ = select.select([self.server.stdout], [], [], 2 * DEADLINE_SECONDS)
        answer = self.server.stdout.readline() if ready else ""
        assert answer, "the preloaded process gave no answer"
        codes: list[int | None] = json.loads(answer)
        return codes


@contextlib.contextmanager
def preloaded(folder: Path, variables: Mapping[str, str]) -> Iterator[Runner]:
    """A preloaded process of its own, with these variables added to the environment, and runs in this folder."""
    command = [sys.executable, str(Path(__file__).with_name("preloaded.py"))]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **SAFE_ISA, **variables},
        cwd=folder,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == "ready\n"  # however long torch takes to load
        yield Runner(folder, server)
        server.stdin.close()


def prepare(
    out: RunFolder, script: str, args: tuple[str, ...], cwd: Path, ranks: int, changes: dict[str, object]
) -> Path:
    """Writes the spec of a watched run; `changes` replaces any of its fields."""
    spec = {
        "name": Path(script).stem,
        "suite": "tests",
        "experiment": "watch",
        "script": str(SCRIPTS / script),
        "args": args,
        "cwd": str(cwd),
        "mode": "torchrun" if ranks else "python",
        "launcher": "fork",
        "ranks": max(1, ranks),
        "device": "cpu",
        "shares": (),
        "threads_per_rank": 1,
        "oversubscribed": False,
        "repeat": 0,
        "limit_seconds": DEADLINE_SECONDS,
        "stall_seconds": DEADLINE_SECONDS,
        **changes,
    }
    write_json(out.spec, RunSpec(**spec))  # type: ignore[arg-type]
    create_pulses(out.pulses, max(1, ranks))
    return out.spec


def environments(ranks: int) -> list[dict[str, str]]:
    """What torchrun tells its ranks; nothing for a plain process."""
    if not ranks:
        return [{}]
    port = str(free_port())
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "GROUP_RANK": "0",
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        for rank in range(ranks)
    ]


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def change(kind: str, seconds: float = 0.0, rank: int | None = None) -> dict[str, object]:
    """The fields of a spec that ask for one change."""
    settings = {**({"seconds": seconds} if seconds else {}), **({"rank": rank} if rank is not None else {})}
    return {"changes": (Change(kind, settings),)}
