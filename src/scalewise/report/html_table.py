"""Renders a table as HTML: values with tooltips, links to raw rows, and a button that copies it as CSV."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from scalewise.records.folder import RunFolder
from scalewise.report.document import Column, Table
from scalewise.report.tables import csv_text
from scalewise.report.view import RowView, nonbreaking, plain_text, table_view, typeset

MOST_LINKS = 3  # runs of a row that are linked; the others are counted
HEAD_LETTERS = 20  # in a line of a heading
DENSE = 13  # columns, intervals counted as such: a table with more is set more tightly
LONG_TEXT = 30  # letters; such a cell is given room, so that it does not become a column of single words


def table_markup(table: Table, number: int, raw_rows: tuple[Path, Path] | None = None) -> str:
    """Returns the table with caption and notes. A wide table scrolls, but its caption and first column do not."""
    view = table_view(table)
    raw = raw_rows is not None and any(table.runs)
    heads = "".join(_head(column, wide) for column, wide in zip(table.columns, view.beside, strict=True))
    heads += '<th scope="col" class="raw">raw rows</th>' * raw
    body = "".join(
        _group(view.groups.get(index, ""), len(table.columns) + sum(view.beside) + raw)
        + f'<tr class="{row.mark.rstrip("*") or "measured"}">{"".join(_cells(table, index, row, view.beside))}'
        + (f'<td class="raw">{_links(table, index, *raw_rows)}</td>' if raw and raw_rows else "")
        + "</tr>"
        for index, row in enumerate(view.rows)
    )
    dense = ' class="dense"' if len(table.columns) + sum(view.beside) >= DENSE else ""
    notes = [
        f'<p class="small"><sup class="doubt">{letter}</sup> {_shown(text)}</p>' for letter, text in view.footnotes
    ]
    notes += [f'<p class="quiet small">{_shown(nonbreaking(note))}</p>' for note in table.notes]
    dot = "" if table.title.endswith((".", "?")) else "."
    caption = f' <span class="quiet">{_shown(nonbreaking(table.caption))}</span>' if table.caption else ""
    return (
        f'<div class="table" id="table{number}"><p class="caption" id="table{number}-caption"><b>Table {number}.</b> '
        f"{_shown(typeset(table.title))}{dot}{caption} "
        f'<button type="button" class="copy" hidden data-csv="{escape(csv_text(table))}">Copy CSV</button> '
        '<span class="scrolls" hidden>more columns to the right: scroll →</span></p>'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="table{number}-caption">'
        f"<table{dense}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{''.join(notes)}</div>"
    )


def _group(heading: str, columns: int) -> str:
    if not heading:
        return ""
    return f'<tr class="group"><th scope="colgroup" colspan="{columns}"><span>{_shown(heading)}</span></th></tr>'


def _head(column: Column, wide: bool) -> str:
    """Returns the heading, broken into lines here: in a narrow window a browser would break it at every word."""
    span = ' colspan="2"' if wide else ""
    lines = textwrap.wrap(plain_text(column.title), HEAD_LETTERS, break_long_words=False) or [""]
    shown = "<br>".join(escape(line) for line in lines)
    if column.unit:
        gap = " " if len(lines[-1]) + len(column.unit) + 3 <= HEAD_LETTERS else "<br>"
        shown += f'{gap}<span class="unit">({_shown(column.unit)})</span>'
    return f'<th scope="col"{span} class="{_kind(column)}{" wide" * wide}">{shown}</th>'


def _kind(column: Column) -> str:
    return "number" if column.numeric else "word"


def _cells(table: Table, index: int, view: RowView, beside: Sequence[bool]) -> Iterator[str]:
    """Yields each number and, in a column of its own to align the numbers, its interval.

    The mark of the row is in its first cell, which stays visible when the table is scrolled.
    """
    runs = table.runs[index] if index < len(table.runs) else ()
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    for place, (column, cell, wide) in enumerate(zip(table.columns, view.cells, beside, strict=True)):
        # The title is for browsers without scripts; the page's own script shows the same text sooner.
        source = f"; run {runs[0]}{more}" if runs and column.numeric else ""
        tip = f' title="{_shown(cell.tip + source)}"' if cell.tip else ""
        focus = ' tabindex="0"' if cell.tip else ""
        letter = f'<sup class="doubt">{cell.footnote}</sup>' if cell.footnote else ""
        chip = f"{_chip(view.mark)} " if place == 0 and view.mark else ""
        long = " long" if len(cell.text) > LONG_TEXT else ""
        inline = f' <span class="interval">{_shown(cell.interval)}</span>' if cell.interval and not wide else ""
        more_inside = "" if wide else f"{inline}{_chip(cell.mark)}{letter}"
        inside = f"{chip}{_shown(cell.text)}{more_inside}"
        yield f'<td class="{_kind(column)}{long}"{tip}{focus}>{inside}</td>'
        if wide:
            yield f'<td class="interval"{tip}>{_shown(cell.interval)}{_chip(cell.mark)}{letter}</td>'


def _chip(word: str) -> str:
    return f' <span class="chip {word.rstrip("*")}">{_shown(word)}</span>' if word else ""


def _links(table: Table, index: int, runs: Path, out: Path) -> str:
    """Returns links to rank 0's rows of the runs behind the row, if they exist."""
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
