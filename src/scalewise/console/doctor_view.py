"""Shows a diagnosis in the terminal: findings worst first, suspicions, notes, what was not checked, what passed."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from scalewise.console.analysis_view import MOST_COLUMNS, show_paragraph
from scalewise.console.output import Output, printable
from scalewise.doctor.diagnosis_text import (
    observed_text,
    place_text,
    price_text,
    reasons,
    relative,
    root_of,
    sort_findings,
    summary_text,
    sure_text,
    verdict_text,
)
from scalewise.doctor.finding import Check, Diagnosis, Finding, rules
from scalewise.records.examination import PlaceRow

_STYLES = {"wrong": "bold red", "slow": "bold yellow", "note": "bold"}
_LABEL = 7  # columns of `where  `


def show_diagnosis(output: Output, diagnosis: Diagnosis) -> None:
    """Prints the whole diagnosis; everything in it that comes from the script is treated as plain text."""
    root = root_of(Path(diagnosis.script))
    found = sort_findings(diagnosis)
    checks = {rule.check.name: rule.check for rule in rules()}
    output.show(f"{relative(diagnosis.script, root)}: {observed_text(diagnosis)}", style="bold")
    show_paragraph(output, summary_text(diagnosis))
    if diagnosis.failure:
        show_paragraph(output, f"The script failed by itself: {diagnosis.failure}")
    numbered = list(enumerate((*found.proved, *found.suspected, *found.notes), start=1))
    headings = {
        len(found.proved) + 1: "Suspected, not proved: these do not change the exit code" if found.suspected else "",
        len(found.proved) + len(found.suspected) + 1: "Worth knowing" if found.notes else "",
    }
    for number, finding in numbered:
        if headings.get(number):
            output.show()
            output.show(headings[number], style="bold")
        output.show()
        _show_finding(output, number, finding, checks, root)
    output.show()
    for line in _closing(diagnosis):
        show_paragraph(output, line)


def _show_finding(output: Output, number: int, finding: Finding, checks: Mapping[str, Check], root: Path) -> None:
    head = Text(f"{number}. ")
    head.append(verdict_text(finding).upper(), style=_STYLES[finding.severity])
    head.append(printable(f"  {finding.check}"))
    output.data.print(head, soft_wrap=True)
    _show_filled(output, finding.sentence, "   ", "   ")
    check = checks.get(finding.check)
    if check is not None:
        _show_labelled(output, "why", [check.why])
    if finding.where is not None:
        _show_place(output, "where", finding.where, root)
    for place in finding.also:
        _show_place(output, "also", place, root)
    _show_labelled(output, "proof", [sure_text(finding), *finding.evidence])
    if finding.price is not None:
        _show_labelled(output, "price", [price_text(finding.price)])
    if finding.fix:
        for label, line in zip(("fix", *[""] * finding.fix.count("\n")), finding.fix.splitlines(), strict=False):
            output.show(f"   {label:<{_LABEL}}{line}".rstrip(), style="green")


def _show_place(output: Output, label: str, place: PlaceRow, root: Path) -> None:
    output.show(f"   {label:<{_LABEL}}{place_text(place, root)}")
    if place.text:
        quoted = f"{' ' * (3 + _LABEL)}{place.line} | {printable(place.text)}"
        width = max(40, min(output.data.width, MOST_COLUMNS))
        output.show(quoted if len(quoted) <= width else f"{quoted[: width - 4]} ...", style="cyan")


def _show_labelled(output: Output, label: str, texts: Sequence[str]) -> None:
    """Prints paragraphs beside a label; all are indented to the same column."""
    for index, text in enumerate(texts):
        _show_filled(output, text, f"   {label if not index else '':<{_LABEL}}", " " * (3 + _LABEL))


def _show_filled(output: Output, text: str, first: str, rest: str) -> None:
    width = min(output.data.width, MOST_COLUMNS)
    bound = printable(text).replace(" %", "\xa0%")  # a number and its sign stay together
    filled = textwrap.fill(
        bound, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
    output.show(filled.replace("\xa0%", " %"))


def _closing(diagnosis: Diagnosis) -> list[str]:
    """The closing lines: what could not be checked and why, notes on the examination, and last what passed."""
    passed = ", ".join(diagnosis.passed) or "nothing"
    lines = [
        f"Not checked ({len(names)}): {', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in reasons(diagnosis).items()
    ]
    lines += list(diagnosis.notes)
    if diagnosis.folder:
        lines.append(f"The examined run is in {diagnosis.folder}")
    lines.append(f"Passed ({len(diagnosis.passed)}): {passed}.")
    return [*lines, "scalewise doctor --explain NAME says more about a check."]
