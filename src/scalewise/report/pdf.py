"""Sets a document as PDF with Typst. Data is passed as JSON, never as source, so that no text can act as code."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from scalewise.errors import BadRequest
from scalewise.report.document import (
    Answer,
    Block,
    Code,
    Document,
    Facts,
    Figure,
    Formula,
    Judgement,
    Listing,
    Paragraph,
    Section,
    Table,
    TitleBlock,
)
from scalewise.report.draw import draw
from scalewise.report.view import (
    NARROW,
    DocumentNumbers,
    RowView,
    groups_of,
    labels_of,
    nonbreaking,
    numbers_of,
    plain_text,
    table_view,
    typeset,
)

PAGE = Path(__file__).with_name("page.typ")
POINTS_PER_MM = 72 / 25.4
A4_POINTS = 297 * POINTS_PER_MM
MOST_EMPTY = 0.06  # share of a page that may stay empty at its end before other figure sizes are tried
FIGURE_SCALES = (0.9, 1.12, 0.8)
LOWER_FIGURES = (0.88, 0.76)  # shares of the tightest setting's height, tried before a report exceeds the page limit


@dataclass(frozen=True)
class Setting:
    """The sizes that determine how tightly a page is set."""

    text_points: float
    leading_em: float
    figures: float  # height of figures, as a share of the full height
    margin_mm: float
    run_in: bool = False  # a question stands in the first line of its answer, not above it

    @property
    def width_points(self) -> float:
        """The width of the text on A4."""
        return (210 - 2 * self.margin_mm) * POINTS_PER_MM


# First the spacing shrinks, then the type; the last setting is as small as can be read on paper.
SETTINGS = (
    Setting(10.0, 0.62, 1.0, 20.0),
    Setting(9.5, 0.58, 0.92, 18.0),
    Setting(9.0, 0.54, 0.85, 17.0),
    Setting(8.5, 0.52, 0.78, 15.0),
    Setting(8.5, 0.50, 0.72, 14.0, run_in=True),
    Setting(8.0, 0.48, 0.70, 12.5, run_in=True),
)


@dataclass(frozen=True)
class Compiled:
    """A document set in one way."""

    content: bytes
    pages: int  # number of pages without the appendix
    empty_share: float  # the largest empty end of a page, except the last, as a share of a page


def pdf_bytes(document: Document, say: Callable[[str], None]) -> bytes:
    """Returns the PDF in the first setting that keeps the course's page limit; the tightest one if none does.

    The last resort is lower figures; if these do not help either, a message says so. If the chosen setting leaves a
    page
    with an empty end, figures of other heights are tried. If answers are left to the student, there is no limit yet, as
    the
    student's own words will need room.
    """
    limit = None if document.answers == "hints" else document.most_pages
    for setting in SETTINGS:
        made = compiled(document, setting, say)
        if limit is None or made.pages <= limit:
            others = [replace(setting, figures=setting.figures * scale) for scale in FIGURE_SCALES]
            tried = [made]
            while others and tried[-1].empty_share > MOST_EMPTY:
                tried.append(compiled(document, others.pop(0), say))
            fitting = [one for one in tried if one.pages <= made.pages]
            return min(fitting, key=lambda one: one.empty_share).content
    for scale in LOWER_FIGURES:
        lower = compiled(document, replace(setting, figures=setting.figures * scale), say)
        if lower.pages <= (document.most_pages or 0):
            return lower.content
    allowed = f"the course allows {document.most_pages}, and neither type nor figures can be smaller"
    say(f"{document.id}.pdf has {made.pages} pages; {allowed}.")
    return made.content


def write_pdf(path: Path, document: Document) -> None:
    """Writes the PDF of a verb's result, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pdf_bytes(document, lambda text: None))


def compiled(document: Document, setting: Setting, say: Callable[[str], None]) -> Compiled:
    """Compiles the PDF and measures its pages; a formula that Typst does not understand is set in plain letters."""
    compiler = compiler_of(document, setting)
    from typst import TypstError

    try:
        content = compiler.compile(format="pdf")
    except TypstError as error:
        plain = without_formulas(document)
        if plain == document:
            raise
        say(f"the formulas of {document.id}.pdf are in plain letters: {error.message}")
        return compiled(plain, setting, say)
    pages = int(json.loads(compiler.query("<pages>", field="value", one=True)))
    places = json.loads(compiler.query("<places>", field="value"))
    return Compiled(bytes(content), pages, empty_share_of(places, pages, setting))


def empty_share_of(places: Sequence[tuple[str, int, float]], pages: int, setting: Setting) -> float:
    """Returns the largest empty end of a page, from where blocks begin and end: (which, page, points from the top).

    A page counts as full if a block continues on the next one.
    """
    bottom = A4_POINTS - (setting.margin_mm - 1) * POINTS_PER_MM
    crossed = {
        first[1]
        for first, second in pairwise(places)
        if first[0] == "begin" and second[0] == "end" and first[1] < second[1]
    }
    ends = {page: down for which, page, down in places if which == "end"}
    return max(
        [(bottom - ends[page]) / A4_POINTS for page in range(1, pages) if page in ends and page not in crossed] or [0.0]
    )


def without_formulas(document: Document) -> Document:
    """Returns the document with every formula in plain letters."""
    sections = tuple(
        replace(
            section,
            blocks=tuple(
                replace(one, typst="") if isinstance(one, Formula) else one for one in section.shown_on("page")
            ),
        )
        for section in document.sections
    )
    return replace(document, sections=sections)


def compiler_of(document: Document, setting: Setting = SETTINGS[0]) -> Any:
    """Returns Typst's compiler for the document, with no fonts but its own."""
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
    """Returns the document as the data that `page.typ` expects."""
    numbers = numbers_of(document)
    full = document.answers == "full"
    sections = [
        {"label": plain_text(label), **_section(section, numbers, setting)}
        for label, section in zip(labels_of(document), document.sections, strict=True)
    ]
    decided = _decided(document, numbers) if full else []
    summary = document.summary
    return {
        "title": plain_text(document.title),
        "subtitle": plain_text(" · ".join(document.subtitle)),
        "fields": _fields(document.title_block) if document.title_block else [],
        "summary": [typst_prose(text) for text in summary.sentences] if summary and full else [],
        "shaken": [typst_prose(text) for text in summary.shaken] if summary and full else [],
        "write_summary": summary is not None and not full,
        "full": full,
        "sections": [one for one in sections if not (decided and one["small"])],
        "decided": _halves(decided),
        # If there is an appendix, it contains the small print and leaves the counted pages to the answers.
        "appended": [one for one in sections if decided and one["small"]],
    }


def typst_prose(text: str) -> str:
    """Returns sentences with typographic signs, whose numbers keep their units when lines are broken."""
    return nonbreaking(plain_text(text))


def _fields(block: TitleBlock) -> list[dict[str, str]]:
    named = (
        ("Name", block.name),
        ("Student number", block.student_number),
        ("Course", block.course),
        ("Date", block.date),
        ("Machine", block.machine),
    )
    return [{"label": label, "text": plain_text(text)} for label, text in named]


def _decided(document: Document, numbers: DocumentNumbers) -> list[dict[str, Any]]:
    """Returns how each answer was decided, for the appendix."""
    blocks = (block for section in document.sections for block in section.shown_on("page"))
    answers = [block for block in blocks if isinstance(block, Answer)]
    return [
        {
            "row": plain_text(one.row),
            "question": plain_text(one.question),
            "text": typst_prose(one.decided),
            "rests_on": numbers.rests_on(one),
        }
        for one in answers
        if one.decided
    ]


def _section(section: Section, numbers: DocumentNumbers, setting: Setting) -> dict[str, Any]:
    groups = groups_of([part for block in section.shown_on("page") for part in _parts(block)])
    blocks = [_group(group, numbers, setting) for group in groups]
    for block, following in zip(blocks, groups[1:], strict=False):
        if block["kind"] == "paragraph":  # a paragraph that introduces a table or a figure stays with it
            block["sticky"] = isinstance(following[0], Table | Figure | Listing)
    small = section.id == "closing"
    return {
        "title": plain_text(section.title),
        "small": small,
        "blocks": [] if small else blocks,
        "halves": _halves(blocks) if small else [],
    }


def _halves(blocks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Splits blocks of small print into two columns of about the same number of letters."""
    lengths = [len(str(block.get("text", ""))) + 60 for block in blocks]
    cut = min(range(len(blocks) + 1), key=lambda place: abs(sum(lengths[:place]) - sum(lengths[place:])))
    return [blocks[:cut], blocks[cut:]]


def _group(group: Sequence[Block], numbers: DocumentNumbers, setting: Setting) -> dict[str, Any]:
    """Returns the blocks of a group; figures of a row share its width in proportion to the widths they ask for."""
    wanted = sum(one.width for one in group if isinstance(one, Figure))
    row = len(group) > 1 and all(isinstance(one, Figure) for one in group)
    wide = [replace(one, width=one.width / wanted) if row and isinstance(one, Figure) else one for one in group]
    blocks = [_block(block, numbers, setting) for block in wide]
    if len(blocks) == 1:
        return blocks[0]
    if blocks[0]["kind"] == "table":
        return {"kind": "beside", "table": blocks[0], "figure": blocks[1]}
    return {"kind": "row", "blocks": blocks}


def _block(block: Block, numbers: DocumentNumbers, setting: Setting) -> dict[str, Any]:
    if isinstance(block, Table):
        return _table(block, numbers)
    if isinstance(block, Figure):
        drawing = draw(block, setting.figures, setting.width_points)
        return {
            "kind": "figure",
            "number": numbers.figures[block.id],
            "title": typeset(plain_text(block.title)),
            "caption": typst_prose(block.caption),
            "svg": drawing.svg,
            "narrow": block.width <= NARROW,
            "width": drawing.width_points,
        }
    if isinstance(block, Answer):
        return _answer(block, numbers)
    if isinstance(block, Listing):
        return _listing(block, numbers)
    if isinstance(block, Formula):
        # `#` would begin code. No section needs it, so such a formula is shown in plain letters.
        return {"kind": "formula", "typst": "" if "#" in block.typst else block.typst, "plain": plain_text(block.plain)}
    if isinstance(block, Code):
        return {"kind": "code", "text": plain_text(block.text)}
    assert isinstance(block, Paragraph)
    text = f"{block.label}: {block.text}" if block.label else block.text
    return {"kind": "paragraph", "text": typst_prose(text), "sticky": False}


def _parts(block: Block) -> Iterator[Block]:
    """Yields the block, or the paragraphs and lines of code that it is made of on paper."""
    if isinstance(block, Facts):
        yield from (Paragraph(value, name) for name, value in block.rows)
    elif isinstance(block, Judgement):
        yield Paragraph(f"{block.name}: {block.sentence}", block.verdict)
        for quote in block.quotes:
            yield Paragraph(", ".join(place.name for place in quote.places))
            if quote.lines:
                yield Code("\n".join(f"{number:>5} {text}" for number, text in quote.lines))
        yield from (Paragraph(" ".join(texts), label) for label, texts in block.facts)
        if block.fix:
            yield Code(block.fix)
    else:
        yield block


def _answer(answer: Answer, numbers: DocumentNumbers) -> dict[str, Any]:
    return {
        "kind": "answer",
        "row": plain_text(answer.row),
        "question": typst_prose(answer.question),
        "verdict": typst_prose(answer.verdict),
        "rest": typst_prose(" ".join(filter(None, (answer.number, answer.why, answer.practice)))),
        "shaken": [typst_prose(text) for text in answer.shaken_by],
        "rests_on": numbers.rests_on(answer),
        "hint": typst_prose(answer.hint),
    }


def _listing(listing: Listing, numbers: DocumentNumbers) -> dict[str, Any]:
    lines = plain_text(listing.text).rstrip("\n").split("\n")
    last = listing.first_line + len(lines) - 1
    return {
        "kind": "listing",
        "number": numbers.listings[listing.id],
        "title": typeset(plain_text(listing.title)),
        "where": f"{plain_text(listing.source)}, lines {listing.first_line} to {last}",
        "lines": [
            {"number": number, "text": text, "marked": number in listing.marked}
            for number, text in enumerate(lines, listing.first_line)
        ],
    }


def _table(table: Table, numbers: DocumentNumbers) -> dict[str, Any]:
    view = table_view(table)
    return {
        "kind": "table",
        "number": numbers.tables[table.id],
        "title": typeset(plain_text(table.title)),
        "caption": typst_prose(table.caption),
        "columns": [
            {"title": plain_text(one.title), "unit": plain_text(one.unit), "numeric": one.numeric, "interval": interval}
            for one, interval in zip(table.columns, view.beside, strict=True)
        ],
        "rows": [_row(row, view.groups.get(index, "")) for index, row in enumerate(view.rows)],
        "marked": view.marked,
        "footnotes": [{"letter": letter, "text": plain_text(text)} for letter, text in view.footnotes],
        "notes": [typst_prose(note) for note in view.notes],
    }


def _row(row: RowView, group: str) -> dict[str, Any]:
    return {
        "group": typst_prose(group),
        "mark": row.mark,
        "cells": [
            {"text": plain_text(cell.text), "interval": cell.interval, "mark": cell.mark, "footnote": cell.footnote}
            for cell in row.cells
        ],
    }
