"""Describes the checks, from the checks themselves: `--list`, `--explain NAME`, and the page docs/checks.md."""

import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby

from scalewise.doctor.finding import Check, rules
from scalewise.errors import BadRequest, did_you_mean
from scalewise.units import with_capital

COLUMNS = 80


def list_text() -> str:
    """Returns every check in two or three lines: name, severity, what it detects."""
    lines: list[str] = []
    for group, checks in groupby(_checks(), key=lambda check: check.group):
        lines += ["", group] if lines else [group]
        for check in checks:
            lines.append(f"  {check.name} ({check.severity})")
            lines.append(textwrap.indent(_filled(check.detects, COLUMNS - 6), "      "))
    return "\n".join([*lines, "", "scalewise doctor --explain NAME says more about one of them."])


def explain_text(name: str) -> str:
    """Returns the full description of one check."""
    check = next((one for one in _checks() if one.name == name), None)
    if check is None:
        raise BadRequest(f"There is no check {name!r}.", _where_else(name))
    parts = [f"{check.name} ({check.severity}, {check.group})", "", _filled(check.detects), "", _filled(check.why)]
    parts += ["", "The mistake:", "", _indented(check.example), "", "Fixed:", "", _indented(check.fix)]
    parts += ["", _filled(f"Needs {check.needs}; else it abstains.")]
    return "\n".join([*parts, *(["", _filled(check.silent)] if check.silent else [])])


def checks_page() -> str:
    """Returns the text of docs/checks.md."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    checks = _checks()
    yield "# What the doctor checks"
    yield ""
    yield "Made from the checks by `make checks-page`; do not edit."
    yield ""
    yield (
        f"`scalewise doctor SCRIPT` runs the script as it is, watches what it does, and looks for {len(checks)} "
        "mistakes. *wrong*: the result is not what the script means to compute, or there is none. *slow*: it costs "
        "time or memory. *note*: worth knowing, no fault. A check that lacks what it needs abstains and says so."
    )
    yield ""
    yield "| check | finds | |"
    yield "|---|---|---|"
    for check in checks:
        yield f"| [{check.name}](#{check.name}) | {check.severity} | {_cell(check.detects)} |"
    for group, members in groupby(checks, key=lambda check: check.group):
        yield ""
        yield f"## {with_capital(group)}"
        for check in members:
            yield from _section(check)
    yield ""


def _section(check: Check) -> Iterator[str]:
    yield ""
    yield f"### {check.name}"
    yield ""
    yield f"*{check.severity}.* {check.detects}"
    yield ""
    yield check.why
    yield ""
    yield from ("```python", check.example.rstrip(), "```", "", "Fixed:", "", "```python", check.fix.rstrip(), "```")
    yield ""
    yield f"Needs {check.needs}."
    if check.silent:
        yield ""
        yield f"Silent on purpose: {check.silent}"


def _checks() -> tuple[Check, ...]:
    return tuple(rule.check for rule in rules())


def _where_else(name: str) -> str:
    near = did_you_mean(name, (check.name for check in _checks()))
    return with_capital(near) or "`scalewise doctor --list` names them all."


def _filled(text: str, columns: int = COLUMNS) -> str:
    return textwrap.fill(text, columns, break_on_hyphens=False, break_long_words=False)


def _indented(code: str) -> str:
    return textwrap.indent(code.rstrip(), "    ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(checks_page())
