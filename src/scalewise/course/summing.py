"""The summary of a report: the most important verdicts, and the answers that are based on doubtful numbers."""

from collections.abc import Sequence

from scalewise.analysis.phrases import listed
from scalewise.report.document import Answer, Section, Summary


def summed_up(sections: Sequence[Section], wanted: Sequence[tuple[str, int]]) -> Summary:
    """Returns the summary of the answers in `wanted`, named by row and by number within the row, counted from 0."""
    by_row: dict[str, list[Answer]] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Answer):
                by_row.setdefault(block.row, []).append(block)
    told = [f"{row}: {by_row[row][index].verdict}" for row, index in wanted if index < len(by_row.get(row, []))]
    return Summary(tuple(told), shaken_rows([answer for answers in by_row.values() for answer in answers]))


def shaken_rows(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Returns each doubt once, with the rows of the answers it concerns: `H1.2 and H1.4: other programs ...`."""
    rows: dict[str, dict[str, None]] = {}
    for answer in answers:
        for why in answer.shaken_by:
            rows.setdefault(f"{why[:1].lower()}{why[1:].rstrip('.')}", {})[answer.row] = None
    return tuple(f"{listed(list(shaken))}: {why}" for why, shaken in rows.items())
