"""Practical 7: accumulation and mixed precision, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.summing import summed_up
from scalewise.report.document import Section, Summary

MOST_PAGES = 2  # the sheet's limit


def summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns what removing no_sync() costs, whether mixed precision pays, and what both do together."""
    return summed_up(sections, (("P7.1", 2), ("P7.3", 0), ("P7.5", 0), ("P7.5", 1)))
