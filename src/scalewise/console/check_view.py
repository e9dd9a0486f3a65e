"""Shows the check of a script: the verdict, then each requirement with its mark, its measured number and its line."""

import shlex
import textwrap
from pathlib import Path
from typing import Any

from scalewise.console.output import Output
from scalewise.console.terminal import MOST_COLUMNS, show_paragraph
from scalewise.course.tasks.requirement import Judged, State, TaskVerdict
from scalewise.records.examination import PlaceRow

_MARKS: dict[State, tuple[str, str]] = {
    "fulfilled": ("[yes]", "green"),
    "not fulfilled": ("[NO] ", "bold red"),
    "not seen": ("[ ? ]", "yellow"),
}
_INDENT = " " * 13


def show_verdict(output: Output, verdict: TaskVerdict) -> None:
    """Prints the whole verdict; what comes from the script is treated as plain text."""
    name = Path(verdict.script).name
    if verdict.failure:
        output.show(verdict.failure, style="bold")
        if verdict.where is not None:
            output.show(f"At {_line(verdict.where)}", style="cyan")
        if verdict.last_line and verdict.last_line not in verdict.failure:
            output.show(f"Its last line: {verdict.last_line}")
    else:
        output.show(f"{name}: {verdict.sentence()}", style="bold")
        show_paragraph(output, f"It was run with {verdict.setting}.")
        output.show()
        for one in verdict.judged:
            _show(output, one)
        output.show()
        show_paragraph(
            output, f"Mistakes that no sheet names are found by: scalewise doctor {shlex.quote(verdict.script)}"
        )
    if verdict.folder:
        output.show(f"The run is in {verdict.folder}")


def _show(output: Output, one: Judged) -> None:
    mark, style = _MARKS[one.found.state]
    output.show(f"{mark} {one.requirement.id:<6} {one.requirement.asks}", style=style)
    seen = "not seen: " if one.found.state == "not seen" else ""
    _filled(output, f"{seen}{one.found.measured}")
    if one.found.where is not None:
        output.show(f"{_INDENT}{_line(one.found.where)}", style="cyan")
    if one.found.change:
        _filled(output, f"change: {one.found.change}")


def _filled(output: Output, text: str) -> None:
    width = min(output.data.width, MOST_COLUMNS)
    output.show(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False))


def _line(where: PlaceRow) -> str:
    return f"{Path(where.file).name}:{where.line}  {where.text.strip()[:100]}".rstrip()


def verdict_json(verdict: TaskVerdict) -> dict[str, Any]:
    """The verdict as JSON values, for programs."""
    return {
        "task": verdict.task.name,
        "script": verdict.script,
        "verdict": verdict.sentence(),
        "fulfilled": verdict.count("fulfilled"),
        "not_fulfilled": verdict.count("not fulfilled"),
        "not_seen": verdict.count("not seen"),
        "requirements": [_json(one) for one in verdict.judged],
        "failure": verdict.failure,
        "last_line": verdict.last_line,
        "where": _place_json(verdict.where),
        "setting": verdict.setting,
        "folder": verdict.folder,
        "exit_code": verdict.exit_code,
    }


def _json(one: Judged) -> dict[str, Any]:
    return {
        "id": one.requirement.id,
        "asks": one.requirement.asks,
        "state": one.found.state,
        "measured": one.found.measured,
        "where": _place_json(one.found.where),
        "change": one.found.change,
    }


def _place_json(where: PlaceRow | None) -> dict[str, Any] | None:
    return {"file": where.file, "line": where.line, "text": where.text} if where else None
