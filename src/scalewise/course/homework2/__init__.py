"""Homework 2: Codes 1, 2 and 3, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.summing import summed_up
from scalewise.report.document import Section, Summary

MOST_PAGES = 2  # the sheet's limit


def summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns the verdicts on whether Code 3 is right, and on where its time and memory come from."""
    wanted = (
        ("H2.1", 0, "Code 3 trains as Code 1"),
        ("H2.3", 0, "where time goes"),
        ("H2.3", 1, "memory"),
        ("H2.3", 2, "effective batch"),
    )
    return summed_up(sections, wanted)
