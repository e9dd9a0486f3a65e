"""A hand-in: the lines that a task asks for, the scripts, the report as one PDF, and commands that run on their own."""

import ast
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalewise.analysis.evidence import Evidence
from scalewise.errors import BadRequest
from scalewise.plan.find import course_folder
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.records.spec import AxisValue
from scalewise.report.document import Listing, TitleBlock

AROUND = 1  # lines of context before and after the found lines
MOST_LISTED_LINES = 24
FAR = 8  # lines without any that matters: what follows is another stretch


def function_listing(
    evidence: Evidence, experiment: str, name: str, *, id: str, title: str, marks: Sequence[str] = (), **axes: AxisValue
) -> Listing | None:
    """Returns a whole function, such as `LargeLinearModelMP.__init__`; None if it is missing or cannot be read.

    Lines that contain one of `marks` are marked.
    """
    read = _script(evidence, experiment, axes)
    if read is None:
        return None
    source, lines = read
    node = next((found for found in _functions(source, "\n".join(lines)) if found[0] == name), None)
    if node is None:
        return None
    return _listing(id, title, source, lines, range(node[1], node[2] + 1), marks)


def lines_listing(
    evidence: Evidence, experiment: str, marks: Sequence[str], *, id: str, title: str, **axes: AxisValue
) -> Listing | None:
    """Returns the code from the first to the last line that contains one of `marks`; None if there is none."""
    read = _script(evidence, experiment, axes)
    if read is None:
        return None
    source, lines = read
    found = [number for number, line in enumerate(lines, 1) if _marked(line, marks)]
    if not found:
        return None
    first, last = max(1, found[0] - AROUND), min(len(lines), found[-1] + AROUND)
    if last - first + 1 > MOST_LISTED_LINES:
        last = first + MOST_LISTED_LINES - 1
    return _listing(id, title, source, lines, range(first, last + 1), marks)


def stretch_listings(
    evidence: Evidence, experiment: str, marks: Sequence[str], *, id: str, title: str, **axes: AxisValue
) -> tuple[Listing, ...]:
    """All lines that hold one of `marks`, with what lies between them; lines far from the others make a listing apart.

    Nothing is cut off at the ends: a line that matters is in one of the listings, however long the script is.
    """
    read = _script(evidence, experiment, axes)
    if read is None:
        return ()
    source, lines = read
    stretches: list[range] = []
    for number in (number for number, line in enumerate(lines, 1) if _marked(line, marks)):
        before = stretches[-1] if stretches else None
        if before is not None and number - before.stop < FAR and number - before.start < MOST_LISTED_LINES:
            stretches[-1] = range(before.start, number + 1)
        else:
            stretches.append(range(number, number + 1))
    return tuple(
        _listing(f"{id}-{count}" if count else id, title, source, lines, stretch, marks)
        for count, stretch in enumerate(stretches)
    )


def _script(evidence: Evidence, experiment: str, axes: dict[str, AxisValue]) -> tuple[str, list[str]] | None:
    """Returns the name of the file that the experiment ran, and its lines.

    A run that was made on another machine has its path there; then the course's own script of that name stands in.
    """
    for run in evidence.loaded.runs:
        if run.spec.experiment != experiment:
            continue
        if all(str(run.spec.axes.get(key)) == str(value) for key, value in axes.items()):
            file = Path(run.spec.script)
            own = course_folder() / file.name
            if file.is_file() or not own.is_file():
                return _read(file, file.name)
            return _read(own, f"{file.name} as it is in the course (the one that ran is not on this machine)")
    return None


def _read(file: Path, source: str) -> tuple[str, list[str]] | None:
    try:
        return source, file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def _functions(source: str, text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (qualified name, first line, last line) of every function; none if the file is not Python."""
    try:
        tree = ast.parse(text, filename=source)
    except (SyntaxError, ValueError):
        return
    yield from _inside(tree, "")


def _inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child.lineno, child.end_lineno or child.lineno
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inside(child, f"{prefix}{child.name}.")


def _listing(id: str, title: str, source: str, lines: Sequence[str], numbers: range, marks: Sequence[str]) -> Listing:
    shown = [lines[number - 1] for number in numbers]
    indent = min((len(line) - len(line.lstrip()) for line in shown if line.strip()), default=0)
    return Listing(
        id=id,
        title=title,
        source=source,
        first_line=numbers.start,
        text="\n".join(line[indent:] for line in shown),
        marked=tuple(number for number in numbers if _marked(lines[number - 1], marks)),
    )


def _marked(line: str, marks: Sequence[str]) -> bool:
    return any(mark in line for mark in marks)


# Small enough for a script to take seconds. A student's own script that reads no constants runs unchanged.
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
