"""The summary of a report: the verdicts that matter most, and the answers that rest on shaky numbers."""

from collections.abc import Sequence

from scalewise.report.document import Answer, Section, Summary


def summed_up(sections: Sequence[Section], wanted: Sequence[tuple[str, int]]) -> Summary:
    """`wanted` names answers by their row and which of the row's answers it is, counted from 0."""
    by_row: dict[str, list[Answer]] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Answer):
                by_row.setdefault(block.row, []).append(block)
    told = [f"{row}: {by_row[row][index].verdict}" for row, index in wanted if index < len(by_row.get(row, []))]
    shaken = [f"{answer.row}: {why}" for answers in by_row.values() for answer in answers for why in answer.shaken_by]
    return Summary(tuple(told), tuple(dict.fromkeys(shaken)))
