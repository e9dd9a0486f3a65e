"""The whole course in one go: its suites one after another, then their reports."""

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copy2
from typing import TYPE_CHECKING, Any

from scalewise.cli.measure import Here, measure_here
from scalewise.console.output import Output
from scalewise.course.pages import predictions_of
from scalewise.course.predictions import FILE, asked, beside, keep
from scalewise.errors import BadRequest
from scalewise.launch.campaign import disk_trouble_explained
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.plan.experiment import Suite, changed
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite
from scalewise.records.folder import RunFolder, SuiteFolder

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

SUITES = ("homework1", "practical7", "homework2", "homework3")


def run_suites(output: Output, options: Mapping[str, Any], names: Sequence[str] = SUITES) -> tuple[list[Path], bool]:
    """The folders of the suites that could be run, and whether all could; a failed run stops nothing."""
    folders: list[Path] = []
    complete = True
    suites = [_suite(name, options) for name in names]  # all are read first: a slip of the pen shows at once
    if options.get("predict"):
        _ask(suites, output, options["out"], options["again"])
    output.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        for suite in suites:
            output.say(f"{suite.title} ({suite.name})", style="bold")
            try:
                folder, made = measure_here(suite, output, options, here)
            except BadRequest as problem:
                output.refuse(problem)
                complete = False
                continue
            folders.append(folder.path)
            _keep_with_runs(suite.name, options["out"], folder.path)
            if not made:
                raise KeyboardInterrupt
    return folders, complete


def write_reports(output: Output, folders: Sequence[Path], options: "ReportOptions") -> tuple[list[Path], bool]:
    """The files for people, one per suite where it could be made: the PDF, else the page; and whether all were."""
    from scalewise.report.write import write_report

    files: list[Path] = []
    complete = True
    for folder in folders:
        try:
            made = write_report(folder, options, output.say)
        except BadRequest as problem:
            output.refuse(problem)
            complete = False
            continue
        files += _to_read(made)
    return files, complete


def _suite(name: str, options: Mapping[str, Any]) -> Suite:
    return changed(load_suite(find_suite(name)), device=options["device"], full=options["full"])


def _ask(suites: Sequence[Suite], output: Output, out: Path, again: bool) -> None:
    """Before anything is measured, and only once: what was said before an interruption stays."""
    if output.quiet:
        raise BadRequest("--predict asks questions, and --quiet hides them.", "Leave one of the two out.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # letters of another encoding are no number, and no reason to end
    for suite in suites:
        if _said_before(suite.name, out) is not None:
            continue
        if not again and any(_first_end(folder) is not None for folder in out.glob(f"{suite.name}-*")):
            output.say(f"{suite.title}: measured already, so nothing is asked; --again asks and measures anew")
            continue
        guesses = asked(suite.title, predictions_of(suite.name), _line_typed, output.say)
        with disk_trouble_explained(out):
            keep(beside(out, suite.name), guesses)


def _said_before(suite: str, out: Path) -> Path | None:
    """The file with what was said: beside the folders, or in the oldest of them."""
    known = [file for file in (beside(out, suite), *out.glob(f"{suite}-*/{FILE}")) if file.is_file()]
    return min(known, key=lambda file: file.stat().st_mtime, default=None)


def _keep_with_runs(suite: str, out: Path, folder: Path) -> None:
    """Into the folder of the runs, where it was said before the first of them ended.

    An edited script makes a new folder of the suite, and what was said holds for that, too.
    """
    said, end = _said_before(suite, out), _first_end(folder)
    if said is not None and not (folder / FILE).exists() and (end is None or said.stat().st_mtime <= end):
        copy2(said, folder / FILE)
    beside(out, suite).unlink(missing_ok=True)


def _first_end(folder: Path) -> float | None:
    """When the first run in that folder was over; None where none is."""
    return min((run.outcome.stat().st_mtime for run in _over(folder)), default=None)


def _over(folder: Path) -> list[RunFolder]:
    return [run for run in SuiteFolder(folder).runs() if run.outcome.is_file()]


def _line_typed() -> str:
    """Empty where nobody can type: the input is at its end, or closed."""
    return sys.stdin.readline() if sys.stdin is not None else ""


def _to_read(files: Sequence[Path]) -> list[Path]:
    """A machine without Typst makes no PDF, but a page."""
    for ending in (".pdf", ".html"):
        found = [file for file in files if file.suffix == ending]
        if found:
            return found
    return list(files[:1])
