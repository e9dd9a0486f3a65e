"""Practical 7: accumulation and mixed precision, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.summing import summed_up
from scalewise.report.document import Section, Summary

MOST_PAGES = 2  # the sheet's limit


def summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns the verdicts on the cost of removing no_sync(), on mixed precision, and on what both do together."""
    wanted = (
        ("P7.1", 2, "without no_sync()"),
        ("P7.3", 0, "mixed precision"),
        ("P7.5", 0, "memory"),
        ("P7.5", 1, "speed"),
    )
    return summed_up(sections, wanted)
