"""What `bench.wild` does with one script: alone, by each verb, and against the hand timer. Each part is a plain dict.

Every command gets a fresh copy of the script's folder. A command that fails is a result like any other.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.wild_list import Script
from bench.wild_timer import HandTime, hand_time, put_marks, step_by_step
from scalewise.errors import BadRequest
from scalewise.records.load import load

TIMER = Path(__file__).parent / "scripts" / "hand_timer.py"
TAIL_CHARACTERS = 5000
LEFT_OUT = shutil.ignore_patterns("__pycache__", "runs", ".git")

Part = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A command that was run."""

    code: int | None  # None: it took longer than its limit
    stdout: str
    stderr: str
    seconds: float

    def plain(self) -> Part:
        """What is kept of it."""
        return {"code": self.code, "seconds": round(self.seconds, 1), "said": self.stderr[-TAIL_CHARACTERS:]}


@dataclass(frozen=True)
class Copy:
    """A script's folder, copied."""

    script: Script
    root: Path

    def at(self, path: Path) -> Path:
        """Where a file of the original lies in the copy."""
        return self.root / path.relative_to(self.script.root)


def alone(script: Script, work: Path) -> Part:
    """The script without scalewise, for each number of ranks."""
    part: Part = {}
    for ranks in script.ranks:
        copy = _copied(script, work / f"alone-{ranks}")
        part[str(ranks)] = _run(_bare(copy, ranks), copy, {}).plain()
    return part


def run(script: Script, work: Path) -> Part:
    """`scalewise run`, and what its table says for each number of ranks."""
    copy = _copied(script, work / "run")
    return _watched(copy, {})


def doctor(script: Script, work: Path) -> Part:
    """`scalewise doctor` with the most ranks."""
    copy = _copied(script, work / "doctor")
    ended = _run(_verb("doctor", copy, _ranks(script, [max(script.ranks)])), copy, {})
    told = _json(ended.stdout)
    if told is None:
        return ended.plain() | {"found": None}
    found = [_finding(one) for one in told.get("findings", [])]
    return ended.plain() | {"found": found, "failure": told.get("failure", ""), "notes": told.get("notes", [])}


def _finding(one: Part) -> Part:
    where = one.get("where") or {}
    counts = one["severity"] != "note" and one["proof"] != "suspected"
    kept = {key: one[key] for key in ("check", "severity", "proof", "sentence", "evidence")}
    return kept | {"counts": counts, "line": where.get("line"), "file": where.get("file") or where.get("path")}


def rehearse(script: Script, work: Path) -> Part:
    """`scalewise rehearse` with the most ranks, and how its own check on real ranks ended."""
    if script.plain:
        return {"code": 0, "seconds": 0.0, "said": "", "skipped": "a plain script has no ranks to predict"}
    copy = _copied(script, work / "rehearse")
    options = [*_ranks(script, [max(script.ranks)]), "--no-advice"]
    ended = _run(_verb("rehearse", copy, options), copy, {})
    told = _json(ended.stdout)
    if told is None:
        return ended.plain() | {"predicted": None, "refused": [], "checks": []}
    predicted = [{key: one[key] for key in ("ranks", "predicted", "samples")} for one in told.get("at", [])]
    kept = {"predicted": predicted, "refused": told.get("refused", []), "checks": told.get("checks", [])}
    return ended.plain() | kept | {"sharing": told.get("sharing")}


def timed(script: Script, work: Path, rounds: int) -> Part:
    """Rounds of a bare and a watched timed copy; which comes first changes from round to round."""
    if script.begin is None or script.end is None:
        return {"seconds": 0.0, "skipped": "the list names no lines to time between"}
    began = time.perf_counter()
    shares: dict[int, tuple[str, str]] = {}
    made: list[Part] = []
    for number in range(rounds):
        arms = [_watched_round, _bare_round]  # a watched run comes first of all: it says which cores a rank has
        both: Part = {}
        for arm in arms if number % 2 == 0 else arms[::-1]:
            both |= arm(script, work / f"round-{number}", shares)
        made.append(both)
    return {"seconds": round(time.perf_counter() - began, 1), "rounds": made}


def _watched_round(script: Script, work: Path, shares: dict[int, tuple[str, str]]) -> Part:
    copy = _timed_copy(script, work / "watched")
    times = work / "watched-times"
    times.mkdir()
    part = _watched(copy, _timer(work, times))
    by_step: Part = {}
    for made in (run for folder in _out(copy).glob("*") for run in load(folder).runs):
        cores = ";".join(",".join(map(str, share)) for share in made.spec.shares)
        shares[made.spec.ranks] = (cores, str(made.spec.threads_per_rank or ""))
        by_step[str(made.spec.ranks)] = step_by_step(times, made)
    return {"watched": part | {"hand": _hands(times, script), "by_step": by_step}}


def _bare_round(script: Script, work: Path, shares: dict[int, tuple[str, str]]) -> Part:
    hands: Part = {}
    for ranks in script.ranks:
        copy = _timed_copy(script, work / f"bare-{ranks}")
        times = work / f"bare-times-{ranks}"
        times.mkdir()
        cores, threads = shares.get(ranks, ("", ""))
        variables = _timer(work, times) | {"HAND_TIMER_CORES": cores, "GLOO_SOCKET_IFNAME": "lo"}
        if threads:
            variables["OMP_NUM_THREADS"] = threads
        ended = _run(_bare(copy, ranks), copy, variables)
        hands[str(ranks)] = ended.plain() | {"hand": _hand(hand_time(times, ranks))}
    return {"bare": hands}


def _timed_copy(script: Script, to: Path) -> Copy:
    copy = _copied(script, to)
    assert script.begin is not None and script.end is not None
    put_marks(copy.at(script.timed), script.begin, script.end)
    return copy


def _timer(work: Path, times: Path) -> dict[str, str]:
    """The timer's module gets a folder of its own: beside it would lie modules that a script could import."""
    modules = work / "timer"
    modules.mkdir(exist_ok=True)
    shutil.copy(TIMER, modules)
    return {"PYTHONPATH": str(modules), "HAND_TIMER_FOLDER": str(times)}


def _hands(times: Path, script: Script) -> Part:
    return {str(ranks): _hand(hand_time(times, ranks)) for ranks in script.ranks}


def _hand(time: HandTime | None) -> Part | None:
    return asdict(time) if time else None


def _watched(copy: Copy, variables: dict[str, str]) -> Part:
    ended = _run(_verb("run", copy, _ranks(copy.script, copy.script.ranks)), copy, variables)
    told = _json(ended.stdout)
    if told is None:
        return ended.plain() | {"rows": None}
    rows = [_row(row) for one in told.get("experiments", []) for row in one["rows"]]
    return ended.plain() | {"rows": rows, "notes": told.get("notes", [])}


def _row(row: Part) -> Part:
    scaling = row.get("scaling") or {}
    return {
        "ranks": row["ranks"],
        "mark": row["mark"],
        "reason": row["reason"],
        "step_seconds": _value(row["step_seconds"]),
        "samples_per_second": _value(row["samples_per_second"]),
        "samples_per_step": row["samples_per_step"],
        "speedup": _value(scaling.get("speedup")),
        "kind": scaling.get("kind"),
        "refusal": scaling.get("refusal", ""),
        "caveats": [f"{one['name']}: {one['evidence']}" for one in row.get("caveats", [])],
    }


def _value(estimate: Part | None) -> float | None:
    return estimate["value"] if estimate else None


def _ranks(script: Script, ranks: Sequence[int]) -> list[str]:
    return ["--plain"] if script.plain else ["--ranks", ",".join(map(str, ranks))]


def _verb(verb: str, copy: Copy, options: Sequence[str]) -> list[str]:
    script = copy.script
    said = ["--json", "--out", str(_out(copy))]
    words = [script.python, "-m", "scalewise", verb, str(copy.at(script.path)), *options, *said]
    return [*words, "--", *script.arguments]


def _out(copy: Copy) -> Path:
    return copy.root.with_name(copy.root.name + "-out")


def _bare(copy: Copy, ranks: int) -> list[str]:
    script = copy.script
    started = [str(copy.at(script.path)), *script.arguments]
    if script.plain:
        return [script.python, *started]
    return [script.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *started]


def _copied(script: Script, to: Path) -> Copy:
    for old in (to, to.with_name(to.name + "-out"), to.with_name(to.name + "-times")):
        shutil.rmtree(old, ignore_errors=True)
    try:
        shutil.copytree(script.root, to, ignore=LEFT_OUT, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise BadRequest(f"{script.root} cannot be copied: {error}") from None
    return Copy(script, to)


def _run(command: Sequence[str], copy: Copy, variables: dict[str, str]) -> Ended:
    """Ends the whole group of processes at the limit, or when this process is interrupted."""
    script = copy.script
    asked = {key: value.replace("{root}", str(copy.root)) for key, value in script.environment.items()}
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **asked, **variables}
    paths = (variables.get("PYTHONPATH"), asked.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=copy.at(script.cwd),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )
    code: int | None
    try:
        stdout, stderr = process.communicate(timeout=script.limit_seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        stdout, stderr = _ended_by_us(process)
        code = None
    except BaseException:
        _ended_by_us(process)
        raise
    return Ended(code, stdout, stderr, time.perf_counter() - began)


def _ended_by_us(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """First politely: scalewise ends its ranks then. torchrun's ranks are in sessions of their own, and may hang."""
    tree = [*psutil.Process(process.pid).children(recursive=True), process]
    said = _ended_by(signal.SIGINT, process)
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    return said or _ended_by(signal.SIGKILL, process) or ("", "")


def _ended_by(word: signal.Signals, process: "subprocess.Popen[str]") -> tuple[str, str] | None:
    """What it said until it ended; None: it, or a process that writes to the same pipe, has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, word)
    try:
        return process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        return None


def _json(text: str) -> Part | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


PARTS: dict[str, Callable[[Script, Path], Part]] = {"alone": alone, "run": run, "doctor": doctor, "rehearse": rehearse}
