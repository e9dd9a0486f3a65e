"""One measured point of a suite with the cells that tables and sentences share, and how two points differ."""

from dataclasses import dataclass, replace
from typing import Any

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import ArmRow
from scalewise.course.memory import peak_of
from scalewise.course.selected_arms import REFUSED, Verdict, all_reduces, contrast, hole, usable
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, number_cell, said
from scalewise.report.document import Cell

MEGABYTE = 1e6
GIGABYTE = 1e9


@dataclass(frozen=True)
class Point:
    """One row of a table: what was measured, or why nothing was."""

    label: str
    row: ArmRow | None
    missing: str  # why there are no figures; empty if there are some
    peak_bytes: int | None
    peak_witness: str  # how the peak was measured
    reduces: int  # all-reduces of one optimizer step on one rank
    reduced_bytes: int

    @property
    def ranks(self) -> Cell:
        """The number of ranks that ran; emulated if they shared a GPU."""
        return count_cell(self.row.ranks, mark=mark_of(self.row)) if self.row else empty_cell(self.missing)

    @property
    def step(self) -> Cell:
        """The step in milliseconds."""
        step = self.row.step_seconds if self.row else None
        return estimate_cell(step, 1e3, mark=mark_of(self.row), why_empty=self.missing)

    def phase(self, name: str) -> Cell:
        """Returns the time of one phase in milliseconds, mean over the ranks."""
        seconds = self.row.phase_seconds.get(name) if self.row else None
        return number_cell(seconds, 1e3, why_empty=self.missing or "not seen")

    @property
    def peak_mb(self) -> Cell:
        """The peak of memory in megabytes."""
        return number_cell(self.peak_bytes, 1 / MEGABYTE, why_empty=self.missing or "not seen", note=self.peak_witness)

    @property
    def peak_gb(self) -> Cell:
        """The peak of memory in gigabytes, as the sheet asks."""
        return number_cell(self.peak_bytes, 1 / GIGABYTE, why_empty=self.missing or "not seen", note=self.peak_witness)

    @property
    def reduced_mb(self) -> Cell:
        """The megabytes that the ranks average in one optimizer step."""
        return number_cell(self.reduced_bytes / MEGABYTE if self.row else None, why_empty=self.missing)

    @property
    def run_names(self) -> tuple[str, ...]:
        """The runs behind the point."""
        return self.row.run_names if self.row else ()


def point(evidence: Evidence, label: str, experiment: str, *, change: str = "none", **axes: Any) -> Point:
    """Returns the arm with these values, or, if its script did not do what its label says, why it is missing."""
    row = usable(evidence, experiment, change=change, **axes)
    missing = "" if row else hole(evidence, experiment, **axes)
    if missing.startswith(REFUSED):
        return Point(label, None, missing, None, "", 0, 0)
    peak = peak_of(evidence, experiment, **axes)
    count, size = all_reduces(evidence, row) if row else (0, 0)
    return Point(label, row, missing, peak.bytes if peak else None, peak.witness if peak else "", count, size)


@dataclass(frozen=True)
class StepChange:
    """The change of the step from A to B, in percent."""

    verdict: Verdict  # B is ...
    cell: Cell  # signed

    def words(self) -> str:
        """Returns `12 % less time`, with the digits of the cell."""
        size = replace(self.cell, text=self.cell.text.lstrip("−-+"))
        return f"{said(size, '%')} {'less' if (self.cell.number or 0) < 0 else 'more'} time"


def change_between(evidence: Evidence, a: Point, b: Point) -> StepChange | None:
    """Returns the change from A to B; None if one is missing, or if they did not do the same work on as many ranks."""
    found = contrast(evidence, a.row, b.row)
    return StepChange(found.verdict, estimate_cell(found.change, 100)) if found else None


def change_cell(found: StepChange | None, why: str = "nothing to compare with") -> Cell:
    """Returns the change in percent, or an empty cell."""
    return found.cell if found else empty_cell(why)
