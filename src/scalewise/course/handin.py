"""A hand-in: the scripts of one homework, its report as one PDF, and the commands, proved to run by themselves."""

import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalewise.analysis.evidence import Evidence
from scalewise.errors import BadRequest
from scalewise.records.folder import SuiteFolder
from scalewise.report.document import TitleBlock
from scalewise.results.load import load

# So small that a script needs seconds; a student's own script that reads no constants runs as it is.
SMALL = {"DIM": "64", "STEPS": "8", "WARMUP": "2"}
LIMIT_SECONDS = 180.0
MOST_LINES = 3  # of what a script said before it failed
_DATE = (1980, 1, 1, 0, 0, 0)  # of every file in the zip: the same content gives the same bytes


@dataclass(frozen=True)
class HandedScript:
    """One script as it was measured, and how it is started."""

    file: Path
    ranks: int  # 0: a plain process, without torchrun

    @property
    def command(self) -> str:
        """What a person types in the folder of the script."""
        name = shlex.quote(self.file.name)
        return f"torchrun --standalone --nproc_per_node={self.ranks} {name}" if self.ranks else f"python {name}"

    @property
    def words(self) -> list[str]:
        """The same for this interpreter."""
        if not self.ranks:
            return [sys.executable, self.file.name]
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [*start, self.file.name]


def newest_folder(suite: str, runs: Path) -> Path:
    """The folder in which that suite was measured last; a BadRequest where it was not."""
    found = [
        folder
        for folder in (sorted(runs.iterdir()) if runs.is_dir() else [])
        if folder.is_dir() and SuiteFolder(folder).runs() and load(folder).name == suite
    ]
    if not found:
        raise BadRequest(f"{suite} was not measured in {runs} yet.", f"Measure first: scalewise run {suite}")
    return max(found, key=lambda folder: folder.stat().st_mtime)


def scripts_of(evidence: Evidence) -> tuple[HandedScript, ...]:
    """Every script that the suite measured, each once, with the most ranks it was started on."""
    found: dict[Path, int] = {}
    for run in evidence.loaded.runs:
        file = Path(run.spec.script)
        if run.spec.timed and "scalewise" not in file.parts:  # built-in subjects are no work of the student's
            ranks = 0 if run.spec.mode == "python" else run.spec.world_size
            found[file] = max(ranks, found.get(file, 0))
    return tuple(HandedScript(file, ranks) for file, ranks in sorted(found.items()))


def problem_of(script: HandedScript) -> str:
    """Why the script does not run by itself in an empty folder; empty where it does."""
    try:
        text = script.file.read_bytes()
    except OSError as error:
        return f"{script.file} cannot be read: {error.strerror}"
    with tempfile.TemporaryDirectory(prefix="scalewise-handin-") as name:
        folder = Path(name)
        (folder / script.file.name).write_bytes(text)
        try:
            done = subprocess.run(
                script.words,
                cwd=folder,
                env=_plain_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{script.file.name} did not end within {LIMIT_SECONDS:.0f} s in an empty folder"
    if done.returncode == 0:
        return ""
    return f"{script.file.name} ended with exit code {done.returncode} in an empty folder: {_last_words(done.stderr)}"


def _plain_environment() -> dict[str, str]:
    """That of a person who has only PyTorch: no watcher, nothing else on the path, small constants."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and "SCALEWISE" not in name}
    return {"GLOO_SOCKET_IFNAME": "lo", **kept, **SMALL}


def _last_words(text: str) -> str:
    """The error itself, without torchrun's own report below it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return " / ".join((errors[:1] or lines[-MOST_LINES:]) or ["it said nothing"])[:300]


def read_me(title: str, author: TitleBlock, scripts: Sequence[HandedScript], report: str, suite: str) -> str:
    """What the folder holds and which commands repeat it."""
    who = " · ".join(filter(None, (author.name, author.student_number, author.course)))
    commands = "\n".join(f"    {script.command}" for script in scripts)
    return (
        f"{title}\n{who}\n\n"
        f"{report}: the report. Measured {author.date} on {author.machine}.\n\n"
        f"Each script runs by itself; its constants can be set from outside (DIM=512 STEPS=20 ...):\n\n{commands}\n\n"
        f"All measurements of the report again, with scalewise:\n\n    scalewise run {suite}\n"
        f"    scalewise report runs/{suite}-*\n"
    )


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """The same content gives the same bytes; the file is never half."""
    half = path.with_name(path.name + ".part")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    half.replace(path)
