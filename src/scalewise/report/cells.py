"""Turns estimates and arms into cells of a table: how a number is rounded, and how it is marked.

A value becomes a cell once; tables show the cell, and sentences quote it with `said`. So the same number never has
two roundings in one report.
"""

from collections.abc import Mapping

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.summary import ArmRow
from scalewise.report.document import EMPTY, Cell, Mark
from scalewise.units import significant, with_interval

MARKS: Mapping[str, Mark] = {
    "measured": "measured",
    "emulated": "emulated",
    "oversubscribed": "oversubscribed",
    "failed": "failed",
    "unfinished": "missing",
}
PREDICTED_DIGITS = 2  # a prediction is not told more finely than what was measured beside it


def mark_of(row: ArmRow | None, *, emulated: bool = False) -> Mark:
    """Returns the mark of the row's numbers; `emulated` if logical devices stand for real ones."""
    if row is None:
        return "missing"
    mark = MARKS[row.mark]
    return "emulated" if emulated and mark == "measured" else mark


def estimate_cell(
    found: Estimate | None, scale: float = 1.0, *, mark: Mark = "measured", why_empty: str = "", note: str = ""
) -> Cell:
    """Returns a number with its interval; `scale` converts it to the column's unit (1000 for ms, 100 for %)."""
    if found is None:
        return empty_cell(why_empty, mark)
    shown = note or f"{found.method}, {found.steps} steps of {found.runs} run{'' if found.runs == 1 else 's'}"
    ends = found.low * scale, found.high * scale
    return interval_cell(found.value * scale, *ends, level=found.level, mark=mark, note=shown)


def interval_cell(
    value: float,
    low: float,
    high: float,
    *,
    level: float,
    mark: Mark = "measured",
    note: str = "",
    most_digits: int = PREDICTED_DIGITS,
) -> Cell:
    """Returns a number with the ends of its interval, all in the column's unit; equal ends mean an exact number.

    What was predicted has no more than `most_digits`.
    """
    if low == high:
        return Cell(significant(value), value, low, high, mark, note, level=level)
    most = most_digits if mark.startswith("predicted") else None
    text, low_text, high_text = with_interval(value, low, high, most)
    return Cell(text, value, low, high, mark, note, interval=f"[{low_text}, {high_text}]", level=level)


def number_cell(
    value: float | None, scale: float = 1.0, *, mark: Mark = "measured", why_empty: str = "", note: str = ""
) -> Cell:
    """Returns a number without an interval, in the column's unit after `scale`, with three significant digits."""
    if value is None:
        return empty_cell(why_empty, mark)
    return Cell(significant(value * scale), value * scale, mark=mark, note=note)


def said(cell: Cell, unit: str = "") -> str:
    """Returns the cell's value for a sentence, with the digits that the table shows: `38.9 ms`."""
    return f"{cell.text}\u00a0{unit}" if unit else cell.text


def said_with_interval(cell: Cell, unit: str = "") -> str:
    """Returns the cell's value for a sentence, followed by its interval if it has one: `38.9 ms [33.7, 44.1]`."""
    return f"{said(cell, unit)} {cell.interval}".rstrip()


def count_cell(value: int | None, *, mark: Mark = "measured", note: str = "") -> Cell:
    """Returns a whole number, such as ranks or layers."""
    return empty_cell("", mark) if value is None else Cell(f"{value}", float(value), mark=mark, note=note)


def text_cell(text: str, *, mark: Mark = "measured", note: str = "") -> Cell:
    """Returns a cell of words."""
    return Cell(text, mark=mark, note=note)


def empty_cell(why: str, mark: Mark = "missing") -> Cell:
    """Returns a cell without a value; `why` gives the reason."""
    return Cell(EMPTY, mark=mark, note=why)
