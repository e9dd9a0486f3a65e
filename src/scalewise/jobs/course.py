"""The whole course in one go: its suites one after another, then their reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalewise.course.pages import predictions_of
from scalewise.course.predictions import FILE, asked, keep
from scalewise.errors import BadRequest
from scalewise.jobs.measure import Here, Where, measure_here
from scalewise.jobs.reporter import Reporter
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.plan.experiment import DeviceChoice, Suite, changed
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

SUITES = ("homework1", "practical7", "homework2", "homework3")


@dataclass(frozen=True)
class CourseRequest:
    """How the suites of the course are to be run."""

    where: Where
    device: DeviceChoice | None = None
    full: bool = False
    read_line: Callable[[], str] | None = None  # where the student's predictions come from; None: nobody is asked


def run_suites(reporter: Reporter, request: CourseRequest, names: Sequence[str] = SUITES) -> tuple[list[Path], bool]:
    """The folders of the suites that could be run, and whether all could; a failed run stops nothing."""
    folders: list[Path] = []
    complete = True
    suites = [_suite(name, request) for name in names]  # all are read first: a slip of the pen shows at once
    guesses = _expected(suites, reporter, request.where.out, request.read_line) if request.read_line else {}
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
            if suite.name in guesses:
                keep(folder.path, guesses[suite.name])
            if not made:
                raise KeyboardInterrupt
    return folders, complete


def write_reports(reporter: Reporter, folders: Sequence[Path], options: "ReportOptions") -> tuple[list[Path], bool]:
    """The files for people, one per suite where it could be made: the PDF, else the page; and whether all were."""
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


def _expected(
    suites: Sequence[Suite], reporter: Reporter, out: Path, read_line: Callable[[], str]
) -> dict[str, dict[str, float]]:
    """Asked before anything is measured, and only once: what was said before an interruption stays."""
    known = {suite.name for suite in suites if any(out.glob(f"{suite.name}-*/{FILE}"))}
    return {
        suite.name: asked(suite.title, predictions_of(suite.name), read_line, reporter.say)
        for suite in suites
        if suite.name not in known
    }


def _to_read(files: Sequence[Path]) -> list[Path]:
    """A machine without Typst makes no PDF, but a page."""
    for ending in (".pdf", ".html"):
        found = [file for file in files if file.suffix == ending]
        if found:
            return found
    return list(files[:1])
