"""Homework 1: scaling of data parallelism, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.homework1.doubts import shaken_answers
from scalewise.report.document import Answer, Section, Summary

MOST_PAGES = 4  # the sheet's limit
SUMMED_UP = (("H1.2", 0), ("H1.2", 2), ("H1.3", 0), ("H1.4", 2), ("H1.5B", 0))  # (row, which of its answers)


def summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns the verdicts with the number that shows each, and the answers that are based on doubtful numbers."""
    answers: dict[str, list[Answer]] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Answer):
                answers.setdefault(block.row, []).append(block)
    chosen = [answers[row][index] for row, index in SUMMED_UP if len(answers.get(row, ())) > index]
    told = [f"{one.row}: {one.question} {one.verdict}" for one in chosen]
    told[:1] = [f"{told[0]} {chosen[0].number}"] if told else []
    return Summary(tuple(told), shaken_answers(evidence, tuple(sections)))
