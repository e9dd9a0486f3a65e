"""The parts that renderers share: marks as words, footnotes, references by number, what is set side by side."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from unicodedata import category

from scalewise.analysis.estimate import level_text
from scalewise.report.document import Answer, Block, Cell, Document, Figure, Listing, Paragraph, Section, Table

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
NO_LETTERS: Mapping[str, str] = {}
NOT_HERE = ("predicted", "predicted*")  # a row with this mark may hold numbers that were measured
MOST_LETTERS = 26  # footnotes of one table
ROW = 1.001  # figures are side by side while their widths add up to this
NARROW = 0.5
TABLE_LETTERS = 56  # letters in the longest cells of all columns: about half of the text's width


@dataclass(frozen=True)
class CellView:
    """A cell in pieces that are rendered differently."""

    text: str
    interval: str  # empty: none
    mark: str  # empty: measured, or the row has the mark
    tip: str  # tooltip
    footnote: str = ""  # the letter of the footnote with its doubt


@dataclass(frozen=True)
class RowView:
    """A row whose `mark` holds for all its cells that have none of their own."""

    cells: tuple[CellView, ...]
    mark: str


@dataclass(frozen=True)
class TableView:
    """A table's rows as they are shown, and what its columns need room for."""

    rows: tuple[RowView, ...]
    beside: tuple[bool, ...]  # by column: True if some number has an interval or a mark, shown in a column beside it
    footnotes: tuple[tuple[str, str], ...]  # letter, doubt
    groups: dict[int, str]  # index of a row -> the heading above it
    notes: tuple[str, ...]  # what its marks mean, and the notes of the table

    @property
    def marked(self) -> bool:
        """True if any row has a mark of its own."""
        return any(row.mark for row in self.rows)


@dataclass(frozen=True)
class DocumentNumbers:
    """The number of each table, figure and listing, in the order of the document."""

    tables: dict[str, int]
    figures: dict[str, int]
    listings: dict[str, int]

    def sources(self, answer: Answer) -> tuple[tuple[str, int], ...]:
        """Returns `("Table", 2), ("Figure", 3)`; sources without a number, such as a run, are left out."""
        kinds = (("Table", self.tables), ("Figure", self.figures), ("Listing", self.listings))
        named = dict.fromkeys(answer.rests_on)
        return tuple((kind, known[one]) for one in named for kind, known in kinds if one in known)

    def rests_on(self, answer: Answer) -> str:
        """Returns `Table 2, Figure 3, Listing 1`."""
        return ", ".join(f"{kind}\u00a0{number}" for kind, number in self.sources(answer))


def numbers_of(document: Document) -> DocumentNumbers:
    """Numbers tables, figures and listings from 1 over the whole document."""
    blocks = [block for section in document.sections for block in section.shown_on("page")]

    def counted(kind: type[Table] | type[Figure] | type[Listing]) -> dict[str, int]:
        names = dict.fromkeys(block.id for block in blocks if isinstance(block, kind))
        return {name: number for number, name in enumerate(names, 1)}

    return DocumentNumbers(counted(Table), counted(Figure), counted(Listing))


def labels_of(document: Document) -> list[str]:
    """Returns the label before each section's title: the questions that it answers (H1.2), or else plain numbers.

    In a report that answers questions, a section that answers none has no label.
    """
    rows = [_rows_of(section) for section in document.sections]
    if not document.numbered:
        return [""] * len(rows)
    if not any(rows):
        numbers = count(1)
        return [str(next(numbers)) if section.title else "" for section in document.sections]
    return [
        ", ".join(found) if section.labelled else "" for section, found in zip(document.sections, rows, strict=True)
    ]


def _rows_of(section: Section) -> list[str]:
    return list(dict.fromkeys(one.row for one in section.blocks if isinstance(one, Answer) and one.row))


def table_view(table: Table) -> TableView:
    """Returns rows with their marks; the same doubt on several cells is one footnote."""
    doubts = list(dict.fromkeys(cell.doubt for row in table.rows for cell in row if cell.doubt))
    letters = {doubt: chr(ord("a") + index % MOST_LETTERS) for index, doubt in enumerate(doubts)}
    rows = tuple(row_view(row, letters) for row in table.rows)
    beside = tuple(
        column.numeric and any(row.cells[index].interval or row.cells[index].mark for row in rows)
        for index, column in enumerate(table.columns)
    )
    footnotes = tuple((letter, nonbreaking(doubt)) for doubt, letter in letters.items())
    marks = {row.mark for row in rows} | {cell.mark for row in rows for cell in row.cells}
    meant = (f"{mark.capitalize()}: {meaning}." for mark, meaning in table.marks if mark in marks)
    return TableView(rows, beside, footnotes, dict(table.groups), (*meant, *table.notes))


def row_view(cells: Sequence[Cell], letters: Mapping[str, str] = NO_LETTERS) -> RowView:
    """Returns a row; its mark is that of the first cell if that names the row, or the one that several cells share.

    `letters` are those of the footnotes.
    """
    marked = [cell.mark for cell in cells if cell.mark != "measured" and not _is_missing(cell)]
    if not marked and not any(_has_interval(cell) for cell in cells):  # nothing was measured: the row is missing
        marked = [cell.mark for cell in cells if cell.mark != "measured"]
    first = bool(cells) and cells[0].mark != "measured" and not _is_missing(cells[0]) and not _has_interval(cells[0])
    alike = len(marked) > 1 and len(set(marked)) == 1
    shared = cells[0].mark if first else marked[0] if alike else ""
    return RowView(tuple(_cell_view(cell, shared, letters, place == 0) for place, cell in enumerate(cells)), shared)


def _is_missing(cell: Cell) -> bool:
    """Returns True for a dash, which itself shows that something is missing; its tooltip says what."""
    return cell.mark == "missing" and cell.number is None and len(cell.text) <= 1


def _cell_view(cell: Cell, shared: str, letters: Mapping[str, str], first: bool) -> CellView:
    """Returns a cell as the page shows it; a measured number in a row that was not measured is marked as measured."""
    apart = cell.mark == "measured" and shared in NOT_HERE and _has_interval(cell) and not first
    mark = "" if cell.mark == shared or (cell.mark == "measured" and not apart) or _is_missing(cell) else cell.mark
    level = f"{level_text(cell.level)} interval"
    between = f"{level} {cell.low:.4g} to {cell.high:.4g}" if _has_interval(cell) else ""
    word = cell.mark if cell.number is not None or cell.mark != "measured" else ""
    exact = f"{cell.number:.6g}" if cell.number is not None else ""
    tip = "; ".join(filter(None, (exact, between, word, cell.note, cell.doubt)))
    interval = typeset(cell.interval).replace(" ", "\u00a0")
    return CellView(nonbreaking(cell.text), interval, mark, tip, letters.get(cell.doubt, ""))


def _has_interval(cell: Cell) -> bool:
    return cell.low is not None and cell.high is not None and cell.low != cell.high


def typeset(text: str) -> str:
    """Returns typographic signs: ≥, ×, −, µs, 10⁻³; text between backticks is code and is left as it is."""
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


def nonbreaking(text: str) -> str:
    """Returns typographic signs and non-breaking spaces, so that units and intervals are not separated from numbers."""
    text = typeset(text)
    whole = re.sub(r"\[[^\[\] ]+, [^\[\] ]+\]", lambda found: found[0].replace(" ", "\u00a0"), text)
    return re.sub(r"(?<=\d) (?=(?:%|[kMG]?i?B|[munµ]?s|steps?|ranks?|samples?|GFLOP|[KMGT]iB)\b|%)", "\u00a0", whole)


def plain_text(text: str) -> str:
    """Returns the text with control characters made visible, so that none can affect a program that reads the file."""
    return "".join(char if char.isprintable() or char in "\n\t" or _space(char) else repr(char)[1:-1] for char in text)


def _space(char: str) -> bool:
    """Returns True for spaces of all kinds, such as non-breaking or thin ones, which are kept."""
    return category(char) == "Zs"


def groups_of(blocks: Sequence[Block]) -> list[list[Block]]:
    """Groups blocks that are set together: a row of figures, a narrow table with a figure, or a block alone."""
    groups: list[list[Block]] = []
    for block in gathered(blocks):
        if groups and isinstance(block, Figure) and _joins(groups[-1], block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return _beside_tables(groups)


def gathered(blocks: Sequence[Block]) -> list[Block]:
    """Moves the next narrow figure of the section beside a narrow figure that is alone, past the text between them."""
    order = list(blocks)
    index = 0
    while index < len(order):
        run = _narrow_run(order, index)
        if run % 2:
            later = _next_figure(order, index + run)
            if later is not None and _narrow_run(order, later) % 2:
                order.insert(index + run, order.pop(later))
                run += 1
        index += max(run, 1)
    return order


def _narrow_run(blocks: Sequence[Block], begin: int) -> int:
    """Returns how many narrow figures follow each other from there on."""
    end = begin
    while end < len(blocks) and _narrow(blocks[end]):
        end += 1
    return end - begin


def _next_figure(blocks: Sequence[Block], begin: int) -> int | None:
    for index in range(begin, len(blocks)):
        if isinstance(blocks[index], Figure):
            return index if _narrow(blocks[index]) else None
        if not isinstance(blocks[index], Answer | Paragraph):
            return None
    return None


def _joins(group: Sequence[Block], figure: Figure) -> bool:
    widths = [one.width for one in group if isinstance(one, Figure)]
    return len(widths) == len(group) and sum(widths) + figure.width <= ROW


def _beside_tables(groups: list[list[Block]]) -> list[list[Block]]:
    """Moves a narrow figure that is alone beside the narrow table above it."""
    made: list[list[Block]] = []
    for group in groups:
        above = made[-1] if made else []
        alone = len(group) == 1 and _narrow(group[0])
        if alone and len(above) == 1 and isinstance(above[0], Table) and _narrow_table(above[0]):
            above.append(group[0])
        else:
            made.append(group)
    return made


def _narrow(block: Block) -> bool:
    return isinstance(block, Figure) and block.width <= NARROW


def _narrow_table(table: Table) -> bool:
    """Returns True if the table probably leaves room for a figure; the page measures it."""
    letters = 0
    for index, column in enumerate(table.columns):
        head = len(column.title) + len(column.unit) + 2
        cells = (len(row[index].text) + len(row[index].interval) for row in table.rows)
        letters += max([head, *cells])
    return letters <= TABLE_LETTERS
