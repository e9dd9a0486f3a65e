"""The whole course in one go: its suites one after another, then their reports."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewise.cli.measure import Here, measure_here
from scalewise.console.output import Output
from scalewise.course.pages import predictions_of
from scalewise.course.predictions import FILE, asked, keep
from scalewise.errors import BadRequest
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.plan.experiment import Suite, changed
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

SUITES = ("homework1", "practical7", "homework2", "homework3")


def run_suites(output: Output, options: Mapping[str, Any], names: Sequence[str] = SUITES) -> tuple[list[Path], bool]:
    """The folders of the suites that could be run, and whether all could; a failed run stops nothing."""
    folders: list[Path] = []
    complete = True
    suites = [_suite(name, options) for name in names]  # all are read first: a slip of the pen shows at once
    guesses = _expected(suites, output, options["out"]) if options.get("predict") else {}
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
            if suite.name in guesses:
                keep(folder.path, guesses[suite.name])
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


def _expected(suites: Sequence[Suite], output: Output, out: Path) -> dict[str, dict[str, float]]:
    """Asked before anything is measured, and only once: what was said before an interruption stays."""
    if output.quiet:
        raise BadRequest("--predict asks questions, and --quiet hides them.", "Leave one of the two out.")
    known = {suite.name for suite in suites if any(out.glob(f"{suite.name}-*/{FILE}"))}
    return {
        suite.name: asked(suite.title, predictions_of(suite.name), sys.stdin.readline, output.say)
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
