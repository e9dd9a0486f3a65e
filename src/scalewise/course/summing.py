"""The summary of a report: the most important verdicts, and the answers that are based on doubtful numbers."""

from collections.abc import Sequence

from scalewise.report.document import Answer, Section, Summary
from scalewise.units import listed


def summed_up(sections: Sequence[Section], wanted: Sequence[tuple[str, int] | tuple[str, int, str]]) -> Summary:
    """`wanted` names answers by their row and which of the row's answers it is, counted from 0.

    A third word says what the answer is about: a verdict such as `No: ...` is not understood without its question.
    """
    by_row: dict[str, list[Answer]] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Answer):
                by_row.setdefault(block.row, []).append(block)
    told = []
    for row, index, *about in wanted:
        if index < len(by_row.get(row, [])):
            verdict = by_row[row][index].verdict
            told.append(f"{', '.join([row, *about])}: {_without_yes(verdict) if about else verdict}")
    return Summary(tuple(told), shaken_rows([answer for answers in by_row.values() for answer in answers]))


def _without_yes(verdict: str) -> str:
    """`No: ...` answers a question; behind the words of what it is about, the rest says it."""
    for word in ("Yes: ", "No: "):
        if verdict.startswith(word):
            return verdict.removeprefix(word)
    return verdict


def shaken_rows(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Returns each doubt once, with the rows of the answers it concerns: `H1.2 and H1.4: other programs ...`."""
    rows: dict[str, dict[str, None]] = {}
    for answer in answers:
        for why in answer.shaken_by:
            rows.setdefault(f"{why[:1].lower()}{why[1:].rstrip('.')}", {})[answer.row] = None
    return tuple(f"{listed(list(shaken))}: {why}" for why, shaken in rows.items())
