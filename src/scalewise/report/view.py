"""What page and HTML show of tables alike: numbers apart from intervals, marks as words, references by number."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

from scalewise.explain.answer import Answer
from scalewise.report.document import Cell, Document, Figure, Table

_INTERVAL = re.compile(r"^(.*\S) (\[[^\[\]]+, [^\[\]]+\])$")
_SIGNS = (
    (re.compile(r"(?<= )>=(?= )"), "≥"),
    (re.compile(r"(?<= )<=(?= )"), "≤"),
    (re.compile(r"(?<=[\w)]) x (?=[\w(])"), " × "),
    (re.compile(r"(?<=[\w)]) - (?=[\w(])"), " − "),
    (re.compile(r"\+-(?=\d)"), "±"),
    (re.compile(r"(?<![\w.)\]])-(?=\d)"), "−"),
    (re.compile(r"(?<=\d) us\b"), " µs"),
    (re.compile(r"(?<=\d)%"), " %"),
)
MOST_RUNS = 3  # named below an answer


@dataclass(frozen=True)
class CellView:
    """A cell in the pieces that look different."""

    text: str
    interval: str  # empty: none
    mark: str  # empty: measured, or said once for the row
    tip: str  # for hovering


@dataclass(frozen=True)
class RowView:
    """A row; `mark` holds for all its cells that have none of their own."""

    cells: tuple[CellView, ...]
    mark: str


@dataclass(frozen=True)
class Numbers:
    """The number of each table and figure, in the order of the document."""

    tables: dict[str, int]
    figures: dict[str, int]

    def rests_on(self, answer: Answer) -> str:
        """`Table 2, Table 3`; runs by name, and long lists by count."""
        known = [
            f"Table {self.tables[one]}" if one in self.tables else f"Figure {self.figures[one]}"
            for one in answer.rests_on
            if one in self.tables or one in self.figures
        ]
        runs = [one for one in answer.rests_on if one not in self.tables and one not in self.figures]
        left = len(runs) - MOST_RUNS
        more = [f"{left} more run{'' if left == 1 else 's'}"] if left > 0 else []
        return ", ".join([*known, *runs[:MOST_RUNS], *more])


def numbers_of(document: Document) -> Numbers:
    """Counted from 1 over the whole document."""
    blocks = [block for section in document.sections for block in section.blocks]
    tables = dict.fromkeys(block.id for block in blocks if isinstance(block, Table))
    figures = dict.fromkeys(block.id for block in blocks if isinstance(block, Figure))
    return Numbers(
        {name: number for number, name in enumerate(tables, 1)},
        {name: number for number, name in enumerate(figures, 1)},
    )


def row_view(cells: Sequence[Cell]) -> RowView:
    """The same mark on several cells is said once, at the end of the row."""
    marked = [cell.mark for cell in cells if cell.mark != "measured" and not _hole(cell)]
    if not marked and not any(_has_interval(cell) for cell in cells):  # nothing was measured: the row is missing
        marked = [cell.mark for cell in cells if cell.mark != "measured"]
    shared = marked[0] if len(marked) > 1 and len(set(marked)) == 1 else ""
    return RowView(tuple(_cell_view(cell, shared) for cell in cells), shared)


def _hole(cell: Cell) -> bool:
    """A dash says by itself that something is missing; hovering says what."""
    return cell.mark == "missing" and cell.number is None and len(cell.text) <= 1


def _cell_view(cell: Cell, shared: str) -> CellView:
    found = _INTERVAL.match(cell.text)
    text, interval = (bound_text(found[1]), typeset(found[2])) if found else (bound_text(cell.text), "")
    mark = "" if cell.mark in ("measured", shared) or _hole(cell) else cell.mark
    between = f"95 % interval {cell.low:.4g} to {cell.high:.4g}" if _has_interval(cell) else ""
    word = cell.mark if cell.number is not None or cell.mark != "measured" else ""
    exact = f"{cell.number:.6g}" if cell.number is not None else ""
    return CellView(text, interval, mark, "; ".join(filter(None, (exact, between, word, cell.note))))


def _has_interval(cell: Cell) -> bool:
    return cell.low is not None and cell.high is not None and cell.low != cell.high


def typeset(text: str) -> str:
    """Signs as print has them: ≥, ×, −, µs, 10⁻³; what stands between backticks is code and stays as it is."""
    pieces = text.split("`")
    return "`".join(piece if index % 2 else _signs(piece) for index, piece in enumerate(pieces))


def _signs(text: str) -> str:
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    powers = re.sub(
        r"(?<=\d)e([+-])0*(\d+)\b",
        lambda found: f"\u00a0×\u00a010{_raised(found[1].replace('+', '') + found[2])}" if found[2] != "0" else "",
        text,
    )
    return re.sub(r"(?<=[\w)])\^(\d+)", lambda found: _raised(found[1]), powers)


def _raised(digits: str) -> str:
    return digits.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def bound_text(text: str) -> str:
    """Text with proper signs, whose numbers stay with their units and intervals in one piece when lines are broken."""
    text = typeset(text)
    whole = re.sub(r"\[[^\[\] ]+, [^\[\] ]+\]", lambda found: found[0].replace(" ", "\u00a0"), text)
    return re.sub(r"(?<=\d) (?=(?:%|[kMG]?i?B|[munµ]?s|steps?|ranks?|samples?|GFLOP|[KMGT]iB)\b|%)", "\u00a0", whole)


def plain_text(text: str) -> str:
    """Control characters made visible: none may steer what reads the file."""
    return "".join(char if char.isprintable() or char in "\n\t" or _space(char) else repr(char)[1:-1] for char in text)


def _space(char: str) -> bool:
    """A space that does not break, or a thin one, is to be seen as a space."""
    return category(char) == "Zs"
