"""A hand-in: the scripts, the report as one PDF, and commands that run on their own."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalewise.analysis.evidence import Evidence
from scalewise.errors import BadRequest
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.report.document import TitleBlock

SMALL = {"DIM": "64", "STEPS": "8", "WARMUP": "2"}
LIMIT_SECONDS = 180.0
TRIES = 5
# A thread of gloo says it when Python ends a moment too early for it: training is over, and the script is not to blame.
ABORTED_AT_EXIT = "terminate called without an active exception"
MOST_LINES = 3  # of what a script said before it failed
_SIGNAL = re.compile(r"Signal \d+ \((SIG\w+)\) received")  # as torchrun tells it
_DATE = (1980, 1, 1, 0, 0, 0)  # of every file in the zip: the same content gives the same bytes


@dataclass(frozen=True)
class HandedScript:
    """One script as it was measured, and how it is started."""

    file: Path
    ranks: int  # 0: a plain process, without torchrun

    @property
    def command(self) -> str:
        """The command that a person types in the script's folder."""
        name = shlex.quote(self.file.name)
        return f"torchrun --standalone --nproc_per_node={self.ranks} {name}" if self.ranks else f"python {name}"

    @property
    def words(self) -> list[str]:
        """The same command for this interpreter, word by word."""
        if not self.ranks:
            return [sys.executable, self.file.name]
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [*start, self.file.name]


def newest_folder(suite: str, runs: Path) -> Path:
    """Returns the folder in which that suite was measured last; raises BadRequest if it was not measured."""
    found = [
        folder
        for folder in (sorted(runs.iterdir()) if runs.is_dir() else [])
        if folder.is_dir() and SuiteFolder(folder).runs() and load(folder).name == suite
    ]
    if not found:
        raise BadRequest(f"{suite} was not measured in {runs} yet.", f"Measure first: scalewise run {suite}")
    return max(found, key=lambda folder: folder.stat().st_mtime)


def scripts_of(evidence: Evidence) -> tuple[HandedScript, ...]:
    """Returns every script that the suite measured, each once, with the most ranks it was started on."""
    found: dict[Path, int] = {}
    for run in evidence.loaded.runs:
        file = Path(run.spec.script)
        if run.spec.timed and "scalewise" not in file.parts:  # built-in subjects are no work of the student's
            ranks = 0 if run.spec.mode == "python" else run.spec.world_size
            found[file] = max(ranks, found.get(file, 0))
    return tuple(HandedScript(file, ranks) for file, ranks in sorted(found.items()))


def problem_of(script: HandedScript) -> str:
    """Returns why the script does not run on its own in an empty folder; empty if it does."""
    try:
        text = script.file.read_bytes()
    except OSError as error:
        return f"{script.file} cannot be read: {error.strerror}"
    with tempfile.TemporaryDirectory(prefix="scalewise-handin-") as name:
        folder = Path(name)
        (folder / script.file.name).write_bytes(text)
        ended = _run(script, folder)
        for _ in range(TRIES - 1):
            if ended is None or ABORTED_AT_EXIT not in ended[1]:
                break
            ended = _run(script, folder)
    if ended is None:
        return f"{script.file.name} did not end within {LIMIT_SECONDS:.0f} s in an empty folder"
    code, said = ended
    if code == 0:
        return ""
    return f"{script.file.name} ended with exit code {code} in an empty folder: {_last_words(said)}"


def _run(script: HandedScript, folder: Path) -> tuple[int, str] | None:
    """Returns the exit code and stderr, or None if the command did not end; none of its processes is left running."""
    with subprocess.Popen(
        script.words,
        cwd=folder,
        env=_plain_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            said = process.communicate(timeout=LIMIT_SECONDS)[1]
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                # torchrun that is killed leaves its ranks behind
                for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                    with suppress(psutil.NoSuchProcess):
                        one.kill()
    return process.returncode, said


def edited_since(evidence: Evidence, scripts: Sequence[HandedScript]) -> tuple[str, ...]:
    """The names of scripts that were saved after the last run of them had begun: the report may be of another text."""
    found = []
    for script in scripts:
        runs = [run for run in evidence.loaded.runs if Path(run.spec.script) == script.file]
        begun = [at for run in runs if (at := run.started_unix_seconds) is not None]
        if begun and script.file.stat().st_mtime > max(begun):
            found.append(script.file.name)
    return tuple(found)


def _plain_environment() -> dict[str, str]:
    """Returns the environment of a person with only PyTorch: no watcher, no PYTHONPATH, small constants."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and "SCALEWISE" not in name}
    return {"GLOO_SOCKET_IFNAME": "lo", **kept, **SMALL}


def _last_words(text: str) -> str:
    """Returns the error itself, without torchrun's own report below it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    signal_name = _SIGNAL.search(text)
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    if not errors and signal_name is not None:
        return f"a rank died of {signal_name[1]}"
    return " / ".join((errors[:1] or lines[-MOST_LINES:]) or ["it said nothing"])[:300]


def read_me(title: str, author: TitleBlock, scripts: Sequence[HandedScript], report: str, suite: str) -> str:
    """Returns a text on what the folder contains and which commands repeat it."""
    who = " · ".join(filter(None, (author.name, author.student_number, author.course)))
    commands = "\n".join(f"    {script.command}" for script in scripts)
    return (
        f"{title}\n{who}\n\n"
        f"{report}: the report. Measured {author.date} on {author.machine}.\n\n"
        f"Each script runs by itself; its constants can be set from outside (DIM=512 STEPS=20 ...):\n\n{commands}\n\n"
        f"All measurements of the report again, with scalewise, which takes these scripts from course/:\n\n"
        f"    mkdir -p course\n    cp *.py course/\n    scalewise run {suite}\n"
        f"    scalewise report runs/{suite}-*\n"
    )


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes the zip at once, so that it is never half written; the same content gives the same bytes."""
    half = path.with_name(path.name + ".part")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    half.replace(path)
