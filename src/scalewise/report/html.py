"""Renders a document as HTML: one self-contained page, readable without scripts and network, or a piece for a notebook.

Jinja escapes whatever is put into its templates (`page.html`, `blocks.html`), and control characters are made visible
first, so that nothing of a script is markup.
"""

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

from scalewise.records.folder import RunFolder
from scalewise.report.canvas import VARIABLES, Drawing
from scalewise.report.document import (
    Answer,
    Block,
    Column,
    Document,
    Figure,
    Formula,
    Judgement,
    Listing,
    Section,
    Table,
)
from scalewise.report.draw import draw
from scalewise.report.tables import csv_text
from scalewise.report.view import (
    NARROW,
    TableView,
    gathered,
    labels_of,
    nonbreaking,
    numbers_of,
    plain_text,
    table_view,
    typeset,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LEAST_PIXELS = 1.4  # of a point of a figure: its letters have 8 points, and fewer than 11 pixels are hard to read
POINTS_PER_REM = 7.55  # letters in figures are then as large as those around them
MOST_LINKS = 3  # runs of a row that are linked; the others are counted
HEAD_LETTERS = 20  # in a line of a heading
DENSE = 13  # columns, intervals counted as such: a table with more is set more tightly
LONG_TEXT = 30  # letters; such a cell is given room, so that it does not become a column of single words
MATHML = ("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msup", "msub", "msubsup", "msqrt",
          "munderover", "munder", "mover", "mstyle")  # fmt: skip
MATHML_ATTRIBUTES = {"mathvariant", "stretchy", "form", "lspace", "rspace"}


def html_text(document: Document, raw_rows: tuple[Path, Path] | None = None) -> str:
    """Returns the page. With `raw_rows` (folder of the runs, folder of the page) it links to the runs' raw rows."""
    page = _Page(document, raw_rows)
    subtitle = () if document.title_block else (*filter(None, (document.made_by,)), *document.subtitle)
    return (
        _environment()
        .get_template("page.html")
        .render(document=document, page=page, subtitle=subtitle, contents=list(_contents(page)))
    )


def notebook_html(document: Document) -> str:
    """Returns the document as a piece of HTML without a page or a style sheet around it."""
    page = _Page(document, None, notebook=True)
    return _environment().get_template("notebook.html").render(document=document, page=page)


def write_page(path: Path, document: Document) -> None:
    """Writes the page, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_text(document), encoding="utf-8", errors="replace")


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    """Returns the templates; jinja is imported only when a page is made."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if hasattr(value, "__html__") else plain_text(str(value)),
    )
    made.filters.update(prose=_prose, binding=nonbreaking, titled=_titled, csv=csv_text)
    return made


def _prose(text: str) -> "Markup":
    """Returns sentences as HTML with typographic signs; text between backticks becomes code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(plain_text(nonbreaking(text))))))


def _titled(title: str) -> str:
    """Returns a title that is followed by a caption: it ends like a sentence."""
    return typeset(title) + ("" if title.endswith((".", "?")) else ".")


@dataclass(frozen=True)
class _Entry:
    """A line of the table of contents."""

    anchor: str
    title: str
    label: str = ""
    place: str = ""


@dataclass(frozen=True)
class _Links:
    """The runs behind a row whose raw rows exist: those that are linked, and how many more there are."""

    links: tuple[dict[str, str], ...]
    more: int


@dataclass(frozen=True)
class _TableParts:
    """A table's rows, and what a page adds to them."""

    view: TableView
    wide: int  # number of columns, those of intervals counted
    notes: tuple[str, ...]
    sources: tuple[str, ...]  # for each row: the runs behind it, for a tooltip
    raw: tuple[_Links, ...]  # for each row; empty: raw rows are not linked

    @property
    def dense(self) -> bool:
        """True if the table is set more tightly."""
        return self.wide >= DENSE


class _Page:
    """The answers to what the templates ask about a document."""

    narrow = NARROW
    long_text = LONG_TEXT

    def __init__(self, document: Document, raw_rows: tuple[Path, Path] | None, notebook: bool = False) -> None:
        self.numbers = numbers_of(document)
        self.full = document.answers == "full"  # answers are shown; otherwise there is room to write them
        self.notebook = notebook
        self.sections = list(zip(document.sections, labels_of(document), strict=True))
        self._raw_rows = raw_rows

    def kind(self, block: Block) -> str:
        """Returns the name of the macro for the block."""
        return type(block).__name__

    def rows(self, section: Section) -> Iterator[list[Block]]:
        """Yields the blocks; figures that follow each other are together, side by side."""
        row: list[Block] = []
        for block in gathered(section.shown_on("page")):
            if row and not (isinstance(block, Figure) and isinstance(row[-1], Figure)):
                yield row
                row = []
            row.append(block)
        if row:
            yield row

    def sources(self, answer: Answer) -> tuple[tuple[str, int], ...]:
        """Returns what the answer is based on, by kind and number."""
        return self.numbers.sources(answer)

    def lines(self, listing: Listing) -> list[tuple[int, str]]:
        """Returns the lines of a listing with their numbers."""
        return list(enumerate(listing.text.rstrip("\n").split("\n"), listing.first_line))

    def mathml(self, formula: Formula) -> "Markup | None":
        """Returns the formula as MathML if it is well-formed and has no other elements."""
        from markupsafe import Markup

        try:
            tree = ElementTree.fromstring(f"<math>{formula.mathml}</math>")
        except ElementTree.ParseError:
            return None
        known = all(one.tag in MATHML and set(one.attrib) <= MATHML_ATTRIBUTES for one in tree.iter())
        return Markup(formula.mathml) if len(tree) and known else None

    def drawn(self, figure: Figure, number: int) -> dict[str, "str | Markup"]:
        """Returns the drawing with the least and the greatest width that it is shown at."""
        drawing = draw(figure)
        return {
            "svg": svg_markup(drawing, f"f{number}", f"{figure.title}. {figure.caption}"),
            "most": f"max-width:{drawing.width_points / POINTS_PER_REM:.1f}rem",
            "least": f"min-width:{drawing.width_points * LEAST_PIXELS:.0f}px",
        }

    def table(self, table: Table) -> _TableParts:
        """Returns the table as it is shown."""
        view = table_view(table)
        runs = [table.runs[index] if index < len(table.runs) else () for index in range(len(table.rows))]
        sources = (
            f"; run {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}" if names else ""
            for names in runs
        )
        raw = [_links(names, *self._raw_rows) for names in runs] if self._raw_rows and any(table.runs) else []
        return _TableParts(view, len(view.beside) + sum(view.beside), view.notes, tuple(sources), tuple(raw))

    def heading(self, column: Column) -> list[str]:
        """Returns the lines of a column's heading."""
        return textwrap.wrap(plain_text(column.title), HEAD_LETTERS, break_long_words=False) or [""]

    def unit_fits(self, column: Column) -> bool:
        """Returns True if the unit has room behind the last line of the heading."""
        return len(self.heading(column)[-1]) + len(column.unit) + 3 <= HEAD_LETTERS


def _contents(page: _Page) -> Iterator[_Entry]:
    """Yields the sections; one that has numbered judgements is named by them."""
    for number, (section, label) in enumerate(page.sections, 1):
        judged = [one for one in section.shown_on("page") if isinstance(one, Judgement) and one.number is not None]
        if not judged and section.title:
            yield _Entry(f"s{number}", section.title, label)
        for one in judged:
            line = f"line {one.quotes[0].places[0].line}" if one.quotes else ""
            yield _Entry(f"f{one.number}", one.name, place=line)


def _links(names: Sequence[str], runs: Path, out: Path) -> _Links:
    """Returns links to rank 0's rows of the runs behind a row, if they exist."""
    found = [(name, file) for name in names if (file := _raw_file(runs, name)) is not None]
    links = tuple(
        {
            "address": quote(os.path.relpath(file, out).replace(os.sep, "/")),
            "name": f"{name}/{file.name}",
        }
        for name, file in found[:MOST_LINKS]
    )
    return _Links(links, max(0, len(found) - MOST_LINKS))


def _raw_file(runs: Path, name: str) -> Path | None:
    for folder in (runs / name, runs):
        if folder.name == name and (files := RunFolder(folder).rank_files()):
            return files[0][1]
    return None


def svg_markup(drawing: Drawing, prefix: str, title: str) -> "Markup":
    """Returns inline SVG: colours are variables, points have tooltips, and `prefix` makes its ids unique."""
    from markupsafe import Markup

    body = drawing.svg[drawing.svg.index(">") + 1 : drawing.svg.rindex("</svg>")]
    body = _own_names(body, prefix)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable},{colour})")
    box = f"0 0 {drawing.width_points:g} {drawing.height_points:g}"
    hit_markup = Markup(
        '<rect class="hit" fill="transparent" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" data-tip="{}">'
        "<title>{}</title></rect>"
    )
    hits = Markup("").join(
        hit_markup.format(hit.x, hit.y, hit.width, hit.height, plain_text(hit.text), plain_text(hit.text))
        for hit in drawing.hits
    )
    return Markup(
        '<svg class="plot" role="img" aria-label="{}" viewBox="{}" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}<g>{}</g></svg>'
    ).format(plain_text(title), box, Markup(body), hits)


def _own_names(body: str, prefix: str) -> str:
    """Returns the SVG with prefixed ids; ids that nothing refers to are removed."""
    used = set(re.findall(r"(?:url\(#|xlink:href=\"#)([^\")]+)", body))
    body = re.sub(
        r' id="([^"]+)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", body
    )  # fmt: skip
    return re.sub(r'(url\(#|xlink:href="#)', rf"\g<1>{prefix}-", body)
