"""A table as HTML: values to hover over, raw rows to follow, and a button that copies it as CSV."""

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

from scalewise.records.folder import RunFolder
from scalewise.report.document import Column, Table
from scalewise.report.tables import csv_text
from scalewise.report.view import CellView, RowView, plain_text, row_view

MOST_LINKS = 3  # runs of a row that are linked; the others are counted


def table_markup(table: Table, number: int, runs: Path, out: Path) -> str:
    """With caption and notes."""
    views = [row_view(row) for row in table.rows]
    heads = "".join(_head(column) for column in table.columns)
    raw = any(table.runs)
    extra = f'<th scope="col" class="raw">{"raw rows" if raw else ""}</th>' if raw or _marked(views) else ""
    body = "".join(
        f"<tr>{''.join(_cells(table, view))}"
        + (f'<td class="raw">{_mark(view.mark)} {_links(table, index, runs, out)}</td>' if extra else "")
        + "</tr>"
        for index, view in enumerate(views)
    )
    notes = "".join(f'<p class="quiet small">{_shown(note)}</p>' for note in table.notes)
    dot = "" if table.title.endswith((".", "?")) else "."
    return (
        f'<div class="table" id="table{number}" role="region" aria-label="Table {number}" tabindex="0">'
        f"<table><caption><b>Table {number}.</b> {_shown(table.title)}{dot} "
        f'<button type="button" class="copy" hidden data-csv="{escape(csv_text(table))}">Copy CSV</button></caption>'
        f"<thead><tr>{heads}{extra}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
    )


def _head(column: Column) -> str:
    unit = f' <span class="unit">({_shown(column.unit)})</span>' if column.unit else ""
    return f'<th scope="col" class="{_kind(column)}">{_shown(column.title)}{unit}</th>'


def _kind(column: Column) -> str:
    return "number" if column.numeric else "word"


def _cells(table: Table, view: RowView) -> Iterator[str]:
    for column, cell in zip(table.columns, view.cells, strict=True):
        # The title is for readers without scripts; the page's own script shows the same, and sooner.
        tip = f' title="{_shown(cell.tip)}" tabindex="0"' if cell.tip else ""
        yield f'<td class="{_kind(column)}"{tip}>{_shown_cell(cell)}</td>'


def _shown_cell(cell: CellView) -> str:
    interval = f' <span class="interval">{_shown(cell.interval)}</span>' if cell.interval else ""
    return f"{_shown(cell.text)}{interval}{_mark(cell.mark)}"


def _mark(word: str) -> str:
    return f' <span class="mark">{_shown(word)}</span>' if word else ""


def _marked(views: list[RowView]) -> bool:
    return any(view.mark for view in views)


def _links(table: Table, index: int, runs: Path, out: Path) -> str:
    """To rank 0's rows of the runs behind the row, where they are."""
    names = table.runs[index] if index < len(table.runs) else ()
    found = [(name, file) for name in names if (file := _raw_file(runs, name)) is not None]
    links = [
        f'<a href="{escape(quote(os.path.relpath(file, out).replace(os.sep, "/")))}" '
        f'title="{_shown(name)}/{_shown(file.name)}">{number}</a>'
        for number, (name, file) in enumerate(found[:MOST_LINKS], 1)
    ]
    more = [f"+{len(found) - MOST_LINKS}"] if len(found) > MOST_LINKS else []
    return " ".join([*links, *more])


def _raw_file(runs: Path, name: str) -> Path | None:
    for folder in (runs / name, runs):
        if folder.name == name and (files := RunFolder(folder).rank_files()):
            return files[0][1]
    return None


def _shown(text: str) -> str:
    return escape(plain_text(text))
