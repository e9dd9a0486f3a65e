"""A table as HTML: values to hover over, raw rows to follow, and a button that copies it as CSV."""

import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from scalewise.records.folder import RunFolder
from scalewise.report.document import Column, Table
from scalewise.report.tables import csv_text
from scalewise.report.view import RowView, bound_text, plain_text, row_view, typeset

MOST_LINKS = 3  # runs of a row that are linked; the others are counted


def table_markup(table: Table, number: int, runs: Path, out: Path) -> str:
    """With caption and notes; a table wider than the window scrolls, its caption does not."""
    views = [row_view(row) for row in table.rows]
    beside = [any(view.cells[index].interval or view.cells[index].mark for view in views) for index in _columns(table)]
    marked, raw = any(view.mark for view in views), any(table.runs)
    heads = "".join(_head(column, wide) for column, wide in zip(table.columns, beside, strict=True))
    heads += "<th></th>" * marked + '<th scope="col" class="raw">raw rows</th>' * raw
    body = "".join(
        f"<tr>{''.join(_cells(table, index, view, beside))}"
        + f"<td>{_mark(view.mark)}</td>" * marked
        + f'<td class="raw">{_links(table, index, runs, out)}</td>' * raw
        + "</tr>"
        for index, view in enumerate(views)
    )
    notes = "".join(f'<p class="quiet small">{_shown(bound_text(note))}</p>' for note in table.notes)
    dot = "" if table.title.endswith((".", "?")) else "."
    return (
        f'<div class="table" id="table{number}"><p class="caption" id="table{number}-caption"><b>Table {number}.</b> '
        f"{_shown(typeset(table.title))}{dot} "
        f'<button type="button" class="copy" hidden data-csv="{escape(csv_text(table))}">'
        f'Copy CSV</button></p><div class="scroll" role="region" tabindex="0" aria-labelledby="table{number}-caption">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{notes}</div>"
    )


def _columns(table: Table) -> range:
    return range(len(table.columns))


def _head(column: Column, wide: bool) -> str:
    unit = f' <span class="unit">({_shown(column.unit)})</span>' if column.unit else ""
    span = ' colspan="2"' if wide else ""
    return f'<th scope="col"{span} class="{_kind(column)}{" wide" * wide}">{_shown(column.title)}{unit}</th>'


def _kind(column: Column) -> str:
    return "number" if column.numeric else "word"


def _cells(table: Table, index: int, view: RowView, beside: Sequence[bool]) -> Iterator[str]:
    """A number and, in a column of its own so that numbers stand below each other, its interval."""
    runs = table.runs[index] if index < len(table.runs) else ()
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    for column, cell, wide in zip(table.columns, view.cells, beside, strict=True):
        # The title is for readers without scripts; the page's own script shows the same, and sooner.
        source = f"; run {runs[0]}{more}" if runs and column.numeric else ""
        tip = f' title="{_shown(cell.tip + source)}"' if cell.tip else ""
        focus = ' tabindex="0"' if cell.tip else ""
        yield f'<td class="{_kind(column)}"{tip}{focus}>{_shown(cell.text)}</td>'
        if wide:
            yield f'<td class="interval"{tip}>{_shown(cell.interval)}{_mark(cell.mark)}</td>'


def _mark(word: str) -> str:
    return f' <span class="mark">{_shown(word)}</span>' if word else ""


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
