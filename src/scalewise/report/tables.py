"""Renders each table of a document as CSV and JSON for programs and as Markdown for people."""

import csv
import io
import json
import re
from collections.abc import Sequence

from scalewise.records.codec import json_value
from scalewise.report.document import Cell, Column, Document, Table
from scalewise.report.view import plain_text, row_view, table_view

_ORDERS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins with one of these for a formula


def tables_of(document: Document) -> tuple[Table, ...]:
    """Returns the tables in the order of the document."""
    blocks = (block for section in document.sections for block in section.shown_on("page"))
    return tuple(block for block in blocks if isinstance(block, Table))


def table_files(document: Document) -> dict[str, str]:
    """Returns file name -> text."""
    files: dict[str, str] = {}
    for table in tables_of(document):
        files[f"{file_name(table.id)}.csv"] = csv_text(table)
        files[f"{file_name(table.id)}.json"] = json_text(table)
        files[f"{file_name(table.id)}.md"] = markdown_text(table)
    return files


def file_name(identity: str) -> str:
    """Returns an id as a name that is valid in every file system and does not lead out of the folder."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", identity).strip(".-") or "table"


def csv_text(table: Table) -> str:
    """Returns full numbers, each with its interval if the column has any, and the runs behind the row."""
    bounds = [_bounded(table, index) for index in range(len(table.columns))]
    head: list[str] = []
    for column, bounded in zip(table.columns, bounds, strict=True):
        name = _titled(column)
        head += [name, f"{name} low", f"{name} high"] if bounded else [name]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(one) for one in (*head, "mark", "runs")])
    for number, row in enumerate(table.rows):
        fields: list[str] = []
        for cell, bounded in zip(row, bounds, strict=True):
            fields.append(_number(cell.number) if cell.number is not None else _harmless(cell.text))
            fields += [_number(cell.low), _number(cell.high)] if bounded else []
        runs = table.runs[number] if number < len(table.runs) else ()
        writer.writerow([*fields, _marks(table, row), _harmless(" ".join(runs))])
    return text.getvalue()


def json_text(table: Table) -> str:
    """Returns the table as it stands in the document: each cell with its text, number, interval, level and mark."""
    return json.dumps(json_value(table), indent=1, ensure_ascii=False) + "\n"


def _marks(table: Table, row: Sequence[Cell]) -> str:
    """Returns the row's mark, as the page shows it, and the columns with another mark; an empty cell has none."""
    view = row_view(row)
    apart: dict[str, list[str]] = {}
    for column, cell in zip(table.columns, view.cells, strict=True):
        if cell.mark:
            apart.setdefault(cell.mark, []).append(_titled(column))
    return "; ".join([view.mark or "measured", *(f"{mark}: {', '.join(names)}" for mark, names in apart.items())])


def markdown_text(table: Table) -> str:
    """Returns the table as Markdown: the mark of a row in its first cell, doubts and notes below."""
    view = table_view(table)
    heads = [_escaped(_titled(column)) for column in table.columns]
    rules = ["---:" if column.numeric else ":---" for column in table.columns]
    caption = f" {_escaped(table.caption)}" if table.caption else ""
    lines = [f"**{_escaped(table.title)}**{caption}", "", _row(heads), _row(rules)]
    for index, row in enumerate(view.rows):
        if index in view.groups:
            lines.append(_row([f"**{_escaped(view.groups[index])}**", *[""] * (len(heads) - 1)]))
        cells = [
            " ".join(
                filter(None, (_escaped(one.text) + _raised(one.footnote), _interval(one.interval), _word(one.mark)))
            )
            for one in row.cells
        ]
        lines.append(_row([" ".join(filter(None, (cells[0], _word(row.mark)))), *cells[1:]] if cells else []))
    below = [f"{_raised(letter)} {_escaped(text)}" for letter, text in view.footnotes]
    below += [_escaped(note) for note in view.notes]
    if below:
        lines += ["", *(f"{line}  " for line in below)]
    return "\n".join(lines) + "\n"


def _word(mark: str) -> str:
    return f"*{_escaped(mark)}*" if mark else ""


def _raised(letter: str) -> str:
    return f"<sup>{letter}</sup>" if letter else ""


def _interval(text: str) -> str:
    """Returns the interval unescaped, as brackets around two numbers are not a link in Markdown."""
    return text if re.fullmatch(r"\[[-−∞\d.,e+\s]*\]", text) else _escaped(text)


def _bounded(table: Table, index: int) -> bool:
    return any(row[index].low is not None or row[index].high is not None for row in table.rows)


def _titled(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def _harmless(text: str) -> str:
    """Returns a text that a spreadsheet shows but does not execute."""
    shown = plain_text(text)
    return f"'{shown}" if shown.startswith(_ORDERS) else shown


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Returns the text with all Markdown and HTML characters escaped."""
    single = " ".join(plain_text(text).split())
    marked = re.sub(r"([\\`*_\[\]|~#$!])", r"\\\1", single)
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
