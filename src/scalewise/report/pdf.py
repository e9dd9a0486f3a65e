"""Sets a document as PDF with Typst; data goes in as JSON, never as source, so no string of a script can be code."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalewise.errors import BadRequest
from scalewise.explain.answer import Answer
from scalewise.report.document import Block, Code, Document, Figure, Formula, Paragraph, Section, Table
from scalewise.report.draw import draw, width_points
from scalewise.report.grouping import groups_of
from scalewise.report.view import Numbers, bound_text, numbers_of, plain_text, row_view, typeset

PAGE = Path(__file__).with_name("page.typ")


@dataclass(frozen=True)
class Setting:
    """How tightly a page is set."""

    text_points: float
    leading_em: float
    figures: float  # height of figures, of the full one
    margin_mm: float


# In this order: first air, then size of type; the last is as small as can be read on paper.
SETTINGS = (
    Setting(10.0, 0.62, 1.0, 20.0),
    Setting(9.5, 0.58, 0.92, 18.0),
    Setting(9.0, 0.54, 0.85, 17.0),
    Setting(8.5, 0.52, 0.78, 15.0),
    Setting(8.0, 0.50, 0.72, 14.0),
)


def pdf_bytes(document: Document, say: Callable[[str], None]) -> bytes:
    """The first setting that keeps the course's number of pages; the tightest, and a word about it, if none does."""
    for setting in SETTINGS:
        content, pages = _compiled(document, setting, say)
        if document.most_pages is None or pages <= document.most_pages:
            return content
    say(f"{document.id}.pdf has {pages} pages; the course allows {document.most_pages}, and type cannot be smaller.")
    return content


def _compiled(document: Document, setting: Setting, say: Callable[[str], None]) -> tuple[bytes, int]:
    """The file and its number of pages; a formula that Typst does not understand is shown in plain letters."""
    compiler = compiler_of(document, setting)
    from typst import TypstError

    try:
        content = compiler.compile(format="pdf")
    except TypstError as error:
        plain = without_formulas(document)
        if plain == document:
            raise
        say(f"the formulas of {document.id}.pdf are in plain letters: {error.message}")
        return _compiled(plain, setting, say)
    pages = json.loads(compiler.query("<pages>", field="value", one=True))
    return bytes(content), int(pages)


def without_formulas(document: Document) -> Document:
    """The same with every formula in plain letters."""
    sections = tuple(
        replace(
            section,
            blocks=tuple(replace(one, typst="") if isinstance(one, Formula) else one for one in section.blocks),
        )
        for section in document.sections
    )
    return replace(document, sections=sections)


def compiler_of(document: Document, setting: Setting = SETTINGS[0]) -> Any:
    """Typst's compiler, holding the document, with no fonts but its own."""
    try:
        import typst
    except ImportError:
        raise BadRequest(
            "A PDF is set by typst, which is not installed here.",
            "pip install typst, or leave the PDF out: --format html,tables.",
        ) from None
    inputs = {
        "document": json.dumps(page_data(document, setting), allow_nan=False),
        "setting": json.dumps(vars(setting)),
    }
    return typst.Compiler(str(PAGE), root=str(PAGE.parent), ignore_system_fonts=True, sys_inputs=inputs)


def page_data(document: Document, setting: Setting) -> dict[str, Any]:
    """The document in the words of `page.typ`."""
    numbers = numbers_of(document)
    sections = [_section(section, numbers, setting) for section in document.sections]
    return {"title": plain_text(document.title), "subtitle": plain_text(document.subtitle), "sections": sections}


def _section(section: Section, numbers: Numbers, setting: Setting) -> dict[str, Any]:
    groups = groups_of(section.blocks)
    blocks = [_group(group, numbers, setting) for group in groups]
    for block, following in zip(blocks, groups[1:], strict=False):
        if block["kind"] == "paragraph":  # what introduces a table or a figure stays with it
            block["sticky"] = isinstance(following[0], (Table, Figure))
    small = section.id == "closing"
    return {
        "title": plain_text(section.title),
        "small": small,
        "blocks": [] if small else blocks,
        "halves": _halves(blocks) if small else [],
    }


def _halves(blocks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Two columns of about the same length: small print is cut where half of its letters stand on either side."""
    lengths = [len(str(block.get("text", ""))) + 60 for block in blocks]
    cut = min(range(len(blocks) + 1), key=lambda place: abs(sum(lengths[:place]) - sum(lengths[place:])))
    return [blocks[:cut], blocks[cut:]]


def _group(group: Sequence[Block], numbers: Numbers, setting: Setting) -> dict[str, Any]:
    blocks = [_block(block, numbers, setting) for block in group]
    if len(blocks) == 1:
        return blocks[0]
    if blocks[0]["kind"] == "table":
        return {"kind": "beside", "table": blocks[0], "figure": blocks[1]}
    if blocks[1]["kind"] == "answer":
        return {"kind": "aside", "figure": blocks[0], "answers": blocks[1:]}
    return {"kind": "row", "blocks": blocks}


def _block(block: Block, numbers: Numbers, setting: Setting) -> dict[str, Any]:
    if isinstance(block, Table):
        return _table(block, numbers)
    if isinstance(block, Figure):
        drawing = draw(block, setting.figures)
        return {
            "kind": "figure",
            "number": numbers.figures[block.id],
            "title": typeset(plain_text(block.title)),
            "caption": bound_text(plain_text(block.caption)),
            "svg": drawing.svg,
            "width": width_points(block.width),
        }
    if isinstance(block, Answer):
        return {
            "kind": "answer",
            "row": plain_text(block.row),
            "question": plain_text(block.question),
            "text": bound_text(plain_text(block.text)),
            "condition": bound_text(plain_text(block.condition)),
            "rests_on": plain_text(numbers.rests_on(block))
            .replace("Table ", "Table\u00a0")
            .replace("Figure ", "Figure\u00a0"),
        }
    if isinstance(block, Formula):
        # `#` would begin code: sections have no need of it, so such a formula is shown in plain letters.
        return {"kind": "formula", "typst": "" if "#" in block.typst else block.typst, "plain": plain_text(block.plain)}
    if isinstance(block, Code):
        return {"kind": "code", "text": plain_text(block.text)}
    assert isinstance(block, Paragraph)
    return {"kind": "paragraph", "text": bound_text(plain_text(block.text)), "sticky": False}


def _table(table: Table, numbers: Numbers) -> dict[str, Any]:
    rows = [row_view(row) for row in table.rows]
    intervals = [
        any(row.cells[index].interval or row.cells[index].mark for row in rows) for index in range(len(table.columns))
    ]
    return {
        "kind": "table",
        "number": numbers.tables[table.id],
        "title": typeset(plain_text(table.title)),
        "columns": [
            {"title": plain_text(one.title), "unit": plain_text(one.unit), "numeric": one.numeric, "interval": interval}
            for one, interval in zip(table.columns, intervals, strict=True)
        ],
        "rows": [
            {
                "cells": [
                    {"text": plain_text(cell.text), "interval": cell.interval, "mark": cell.mark} for cell in row.cells
                ],
                "mark": row.mark,
            }
            for row in rows
        ],
        "marked": any(row.mark for row in rows),
        "notes": [bound_text(plain_text(note)) for note in table.notes],
    }
