"""From estimates and arms to cells of a table: what stands in a cell, and how it is marked."""

from collections.abc import Mapping

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.summary import ArmRow
from scalewise.report.document import Cell, Mark
from scalewise.units import three_digits

MARKS: Mapping[str, Mark] = {
    "measured": "measured",
    "emulated": "emulated",
    "oversubscribed": "oversubscribed",
    "failed": "failed",
    "unfinished": "missing",
}
EMPTY = "–"


def mark_of(row: ArmRow | None, *, emulated: bool = False) -> Mark:
    """What the row's numbers are; `emulated` where logical devices stood for real ones."""
    if row is None:
        return "missing"
    mark = MARKS[row.mark]
    return "emulated" if emulated and mark == "measured" else mark


def estimate_cell(
    found: Estimate | None, scale: float = 1.0, *, mark: Mark = "measured", why_empty: str = "", note: str = ""
) -> Cell:
    """A number with its interval, `scale` takes it to the column's unit (1000 for ms, 100 for %)."""
    if found is None:
        return empty_cell(why_empty, mark)
    value, low, high = (one * scale for one in (found.value, found.low, found.high))
    interval = "" if low == high else f" [{three_digits(low)}, {three_digits(high)}]"
    shown = note or f"{found.method}, {found.steps} steps of {found.runs} run{'' if found.runs == 1 else 's'}"
    return Cell(f"{three_digits(value)}{interval}", value, low, high, mark, shown)


def number_cell(
    value: float | None, scale: float = 1.0, *, mark: Mark = "measured", why_empty: str = "", note: str = ""
) -> Cell:
    """A number without an interval, in the column's unit after `scale`."""
    if value is None:
        return empty_cell(why_empty, mark)
    return Cell(three_digits(value * scale), value * scale, mark=mark, note=note)


def count_cell(value: int | None, *, mark: Mark = "measured", note: str = "") -> Cell:
    """A whole number, such as ranks or layers."""
    return empty_cell("", mark) if value is None else Cell(f"{value}", float(value), mark=mark, note=note)


def text_cell(text: str, *, mark: Mark = "measured", note: str = "") -> Cell:
    """Words."""
    return Cell(text, mark=mark, note=note)


def empty_cell(why: str, mark: Mark = "missing") -> Cell:
    """A hole in the table; `why` names it."""
    return Cell(EMPTY, mark=mark, note=why)
