"""Runs the whole course, suite by suite and report by report, and makes the zip that is handed in."""

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copy2
from typing import TYPE_CHECKING

from scalewise.course.handin_parts import edited_since, newest_folder, problem_of, read_me, scripts_of, write_zip
from scalewise.course.homework import course_suites, predictions_of
from scalewise.course.predictions import FILE, asked, beside, keep
from scalewise.errors import BadRequest, did_you_mean
from scalewise.jobs.measure import Here, Where, measure_here
from scalewise.jobs.reporter import Reporter
from scalewise.launch.campaign import disk_trouble_explained
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.experiment import DeviceChoice, Suite, changed
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.report.build_document import document_of, evidence_of
from scalewise.report.write import ReportOptions, write_report
from scalewise.units import listed, with_capital

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions


@dataclass(frozen=True)
class CourseRequest:
    """The options with which the suites of the course are run."""

    where: Where
    device: DeviceChoice | None = None
    full: bool = False
    read_line: Callable[[], str] | None = None  # where the student's predictions come from; None: nobody is asked


def run_suites(
    reporter: Reporter, request: CourseRequest, names: Sequence[str] | None = None
) -> tuple[list[Path], bool]:
    """Returns the folders of the suites that could be run, and whether all could; a failed run does not stop others.

    Without names all suites of the course are run, in its order.
    """
    folders: list[Path] = []
    complete = True
    # All are read first, so that a mistake shows at once.
    suites = [_suite(name, request) for name in names or course_suites()]
    if request.read_line is not None:
        _ask(suites, reporter, request.where, request.read_line)
    reporter.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        for suite in suites:
            reporter.say(f"{suite.title} ({suite.name})", tone="heading")
            try:
                folder, made = measure_here(suite, reporter, request.where, here)
            except BadRequest as problem:
                reporter.refuse(problem)
                complete = False
                continue
            folders.append(folder.path)
            _keep_with_runs(suite.name, request.where.out, folder.path)
            if not made:
                raise KeyboardInterrupt
    return folders, complete


def write_pdf_or_page(reporter: Reporter, folders: Sequence[Path], options: "ReportOptions") -> tuple[list[Path], bool]:
    """Returns the file for readers of each report that was made, the PDF or else the page, and whether all were."""
    from scalewise.report.write import write_report

    files: list[Path] = []
    complete = True
    for folder in folders:
        try:
            made = write_report(folder, options, reporter.say)
        except BadRequest as problem:
            reporter.refuse(problem)
            complete = False
            continue
        files += _to_read(made)
    return files, complete


def _suite(name: str, request: CourseRequest) -> Suite:
    return changed(load_suite(find_suite(name)), device=request.device, full=request.full)


def _ask(suites: Sequence[Suite], reporter: Reporter, where: Where, read_line: Callable[[], str]) -> None:
    """Asks for predictions before anything is measured, and only once: those made before an interruption are kept."""
    for suite in suites:
        if _said_before(suite.name, where.out) is not None:
            continue
        if not where.again and any(_first_end(folder) is not None for folder in where.out.glob(f"{suite.name}-*")):
            reporter.say(f"{suite.title}: measured already, so nothing is asked; --again asks and measures again")
            continue
        guesses = asked(suite.title, predictions_of(suite.name), read_line, reporter.say)
        with disk_trouble_explained(where.out):
            keep(beside(where.out, suite.name), guesses)


def _said_before(suite: str, out: Path) -> Path | None:
    """Returns the file with what was said: beside the folders, or in the oldest of them."""
    known = [file for file in (beside(out, suite), *out.glob(f"{suite}-*/{FILE}")) if file.is_file()]
    return min(known, key=lambda file: file.stat().st_mtime, default=None)


def _keep_with_runs(suite: str, out: Path, folder: Path) -> None:
    """Copies what was said into the folder of the runs, if it was said before the first of them ended.

    An edited script makes a new folder of the suite, and what was said holds for that, too.
    """
    said, end = _said_before(suite, out), _first_end(folder)
    if said is not None and not (folder / FILE).exists() and (end is None or said.stat().st_mtime <= end):
        copy2(said, folder / FILE)
    beside(out, suite).unlink(missing_ok=True)


def _first_end(folder: Path) -> float | None:
    """Returns the time at which the first run in that folder was over; None if none is."""
    return min((run.outcome.stat().st_mtime for run in _over(folder)), default=None)


def _over(folder: Path) -> list[RunFolder]:
    return [run for run in SuiteFolder(folder).runs() if run.outcome.is_file()]


def _to_read(files: Sequence[Path]) -> list[Path]:
    """Returns the PDFs; on a machine without Typst there are none, and it returns the pages."""
    for ending in (".pdf", ".html"):
        found = [file for file in files if file.suffix == ending]
        if found:
            return found
    return list(files[:1])


MOST_BYTES = 200  # length limit of a person's name in a file name


def hand_in(suite: str, runs: Path, out: Path | None, options: ReportOptions, reporter: Reporter) -> Path:
    """Writes the zip and returns its path; a BadRequest names everything that is missing at once."""
    path = out or Path(f"{suite}-{_file_name(options.author.name)}.zip")
    _check(suite, options, path)
    folder = newest_folder(suite, runs)
    evidence = evidence_of(folder)
    scripts = scripts_of(evidence)
    problems = []
    for script in scripts:
        reporter.say(f"trying {script.file.name} in an empty folder")
        problems.append(problem_of(script))
    found = [problem for problem in problems if problem]
    if found:
        raise BadRequest(
            "; ".join(found) + ".", "A script that is handed in must run by itself: one file, no imports of yours."
        )
    edited = edited_since(evidence, scripts)
    if edited:
        told = f"{listed(edited)} {'was' if len(edited) == 1 else 'were'} saved after measuring"
        reporter.say(f"{told}; if you changed it, measure again: scalewise run {suite}", tone="warning")
    document = document_of(evidence, reporter.say, options.pages_of)
    seen = document.title_block
    author = replace(options.author, date=seen.date, machine=seen.machine) if seen else options.author
    files = {script.file.name: script.file.read_bytes() for script in scripts}
    with tempfile.TemporaryDirectory(prefix="scalewise-handin-") as name:
        made = write_report(folder, replace(options, out=Path(name), formats=("pdf",)), reporter.say)
        report = next((path for path in made if path.suffix == ".pdf"), None)
        if report is None:
            raise BadRequest("The PDF could not be made, so there is nothing to hand in.", "See what was said above.")
        files[report.name] = report.read_bytes()
    files["README.txt"] = read_me(document.title, author, scripts, report.name, suite).encode()
    if path.exists():
        reporter.say(f"{path} was there already and is replaced")
    try:
        write_zip(path, {f"{path.stem}/{name}": content for name, content in files.items()})
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error
    return path


def _check(suite: str, options: ReportOptions, path: Path) -> None:
    known = sorted(course_suites())
    problems = []
    if suite not in known:
        near = did_you_mean(suite, known)
        problems.append(f"{suite!r} is no homework of the course ({', '.join(known)}){f'; {near}' if near else ''}")
    if not options.author.name:
        problems.append("--name is missing: a hand-in says whose it is")
    if not options.author.student_number:
        problems.append("--id is missing: give your student number")
    if problems:
        told = [with_capital(problem) for problem in problems]
        sentence = " ".join(one if one.endswith("?") else f"{one}." for one in told)
        raise BadRequest(sentence, "For example: scalewise handin homework2 --name 'Ada Lovelace' --id 1815")

    if not path.parent.is_dir():
        raise _cannot_write(path, f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise _cannot_write(path, "Permission denied")


def _cannot_write(path: Path, reason: str | None) -> BadRequest:
    return BadRequest(f"The zip cannot be written to {path}: {reason}.", "Name another place with --out.")


def _file_name(name: str) -> str:
    """Returns the name's letters and digits in lower case, cut to a length that every folder accepts."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words).encode()[:MOST_BYTES].decode(errors="ignore").strip("-") or "handin"
