"""Homework 3: model parallelism, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.summing import summed_up
from scalewise.report.document import Section, Summary

MOST_PAGES = 2  # the sheet's limit


def summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns the verdicts on whether layers and devices make it faster, which devices are used, and what is moved."""
    wanted = (
        ("H3.2", 0, "more layers"),
        ("H3.4", 0, "all devices used"),
        ("H3.4", 1, "5 devices against 2"),
        ("H3.5", 1, "transfers"),
    )
    return summed_up(sections, wanted)
