"""Renders a document as one self-contained HTML file: no network, no other file, readable without scripts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from scalewise.report.document import (
    Answer,
    Block,
    Code,
    Document,
    Figure,
    Formula,
    Listing,
    Paragraph,
    Section,
    Summary,
    Table,
    TitleBlock,
)
from scalewise.report.draw import draw
from scalewise.report.grouping import NARROW, gathered
from scalewise.report.html_table import table_markup
from scalewise.report.svg_page import svg_markup
from scalewise.report.view import DocumentNumbers, labels_of, nonbreaking, numbers_of, plain_text, typeset

PAGE = Path(__file__).with_name("page.html")
LEAST_PIXELS = 1.4  # of a point of a figure: its letters have 8 points, and fewer than 11 pixels are hard to read
POINTS_PER_REM = 7.55  # letters in figures are then as large as those around them
_PLACE = re.compile(r"\{\{(title|subtitle|contents|body)\}\}")
BLANK = '<dd class="blank"></dd>'
RULED = '<div class="ruled"></div>'
MATHML = ("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msup", "msub", "msubsup", "msqrt",
          "munderover", "munder", "mover", "mstyle")  # fmt: skip
MATHML_ATTRIBUTES = {"mathvariant", "stretchy", "form", "lspace", "rspace"}


@dataclass(frozen=True)
class _Page:
    """The settings that every block of one page is made with."""

    numbers: DocumentNumbers
    full: bool  # answers are shown; otherwise there is room to write them
    raw_rows: tuple[Path, Path] | None  # (folder of the runs, folder of the page), if raw rows are linked


def html_text(document: Document, raw_rows: tuple[Path, Path] | None = None) -> str:
    """Returns the page. With `raw_rows` (folder of the runs, folder of the page) it links to the runs' raw rows."""
    page = _Page(numbers_of(document), document.answers == "full", raw_rows)
    heads = [
        f'<span class="no">{shown(label)}</span> {shown(section.title)}' if label else shown(section.title)
        for label, section in zip(labels_of(document), document.sections, strict=True)
    ]
    body = [
        f'<section id="s{number}"><h2>{head}</h2>{"".join(_blocks(section, page))}</section>'
        for number, (head, section) in enumerate(zip(heads, document.sections, strict=True), 1)
    ]
    if document.summary is not None:
        body.insert(0, _summary(document.summary, page.full))
    if document.title_block is not None:
        body.insert(0, _title_block(document.title_block))
    contents = [f'<li><a href="#s{number}">{head}</a></li>' for number, head in enumerate(heads, 1)]
    return page_text(document.title, "" if document.title_block else document.subtitle, contents, body)


def page_text(title: str, subtitle: str, contents: Sequence[str], body: Sequence[str]) -> str:
    """Returns the whole page from title and subtitle as text, and contents and body as HTML."""
    parts = {
        "title": shown(title),
        "subtitle": " · ".join(f'<span class="whole">{shown(part)}</span>' for part in subtitle.split(" · ")),
        "contents": "\n".join(contents),
        "body": "\n".join(body),
    }
    # All places are filled in one pass, so that the inserted text is not searched for places.
    return _PLACE.sub(lambda found: parts[found[1]], PAGE.read_text(encoding="utf-8"))


def shown(text: str) -> str:
    """Returns the text as HTML, with control characters made visible."""
    return escape(plain_text(text))


def html_prose(text: str) -> str:
    """Returns sentences as HTML with typographic signs; text between backticks becomes code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", shown(nonbreaking(text)))


def _title_block(block: TitleBlock) -> str:
    """Returns the title block as HTML; an empty field is a line to write on."""
    named = (
        ("Name", block.name),
        ("Student number", block.student_number),
        ("Course", block.course),
        ("Date", block.date),
        ("Machine", block.machine),
    )
    fields = "".join(
        f"<div><dt>{label}</dt>{f'<dd>{shown(text)}</dd>' if text else BLANK}</div>" for label, text in named
    )
    return f'<dl class="hand-in">{fields}</dl>'


def _summary(summary: Summary, full: bool) -> str:
    if not full:
        return f'<div class="summary"><b>Summary.</b>{RULED}</div>'
    shaken = "; ".join(map(html_prose, summary.shaken))
    care = f'<p class="shaken">▲ Read with care: {shaken}.</p>' if shaken else ""
    return f'<div class="summary"><p><b>Summary.</b> {html_prose(" ".join(summary.sentences))}</p>{care}</div>'


def _blocks(section: Section, page: _Page) -> Iterator[str]:
    """Yields the blocks as HTML: neighbouring figures share a row; a single narrow one has its caption beside it."""
    row: list[Figure] = []
    for block in (*gathered(section.blocks), None):
        if isinstance(block, Figure):
            row.append(block)
            continue
        if row:
            lone = len(row) == 1 and row[0].width <= NARROW
            figures = "".join(_figure(one, page.numbers, lone) for one in row)
            yield f'<div class="row">{figures}</div>'
            row = []
        if block is not None:
            yield _block(block, page)


def _block(block: Block, page: _Page) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{html_prose(block.text)}</p>"
    if isinstance(block, Code):
        return f'<pre tabindex="0"><code>{shown(block.text)}</code></pre>'
    if isinstance(block, Formula):
        return _formula(block)
    if isinstance(block, Listing):
        return _listing(block, page.numbers)
    if isinstance(block, Answer):
        return _answer(block, page)
    assert isinstance(block, Table)
    return table_markup(block, page.numbers.tables[block.id], page.raw_rows)


def _formula(formula: Formula) -> str:
    """Returns the formula as MathML if it is well-formed and has no other elements; else in plain letters."""
    try:
        tree = ElementTree.fromstring(f"<math>{formula.mathml}</math>")
    except ElementTree.ParseError:
        tree = ElementTree.Element("math")
    known = all(one.tag in MATHML and set(one.attrib) <= MATHML_ATTRIBUTES for one in tree.iter())
    if len(tree) and known:
        label = shown(formula.plain)
        return f'<p class="formula"><math display="block" aria-label="{label}">{formula.mathml}</math></p>'
    return f'<p class="formula plain" role="math">{shown(formula.plain)}</p>'


def _listing(listing: Listing, numbers: DocumentNumbers) -> str:
    number = numbers.listings[listing.id]
    lines = listing.text.rstrip("\n").split("\n")
    last = listing.first_line + len(lines) - 1
    here = dict.fromkeys(listing.marked, ' class="here"')
    code = "".join(
        f'<span{here.get(at, "")}><span class="no">{at}</span>{shown(line)}</span>'
        for at, line in enumerate(lines, listing.first_line)
    )
    dot = "" if listing.title.endswith((".", "?")) else "."
    return (
        f'<div class="listing" id="listing{number}"><p class="caption"><b>Listing {number}.</b> '
        f'{shown(typeset(listing.title))}{dot} <span class="quiet">{shown(listing.source)}, lines '
        f'{listing.first_line} to {last}.</span></p><pre class="source" tabindex="0"><code>{code}</code></pre></div>'
    )


def _figure(figure: Figure, numbers: DocumentNumbers, lone: bool) -> str:
    number = numbers.figures[figure.id]
    kind = " wide" if figure.width > NARROW else " lone" if lone else ""
    drawing = draw(figure)
    picture = svg_markup(drawing, f"f{number}", f"{figure.title}. {figure.caption}")
    most = f"max-width:{drawing.width_points / POINTS_PER_REM:.1f}rem"
    least = f"min-width:{drawing.width_points * LEAST_PIXELS:.0f}px"  # a wide figure scrolls before it is unreadable
    dot = "" if figure.title.endswith((".", "?")) else "."
    return (
        f'<figure id="figure{number}" class="drawn{kind}" style="{"" if lone else most}">'
        f'<div class="scroll" style="{most}"><div style="{least}">{picture}</div></div>'
        f"<figcaption><b>Figure {number}.</b> "
        f'{shown(typeset(figure.title))}{dot} <span class="quiet">{html_prose(figure.caption)}</span> '
        '<span class="scrolls" hidden>more of it to the right: scroll →</span></figcaption>'
        "</figure>"
    )


def _answer(answer: Answer, page: _Page) -> str:
    question = f'<h3 class="question"><b>{shown(answer.row)}</b> {html_prose(answer.question)}</h3>'
    if not page.full:
        hint = f'<p class="quiet small">Use: {html_prose(answer.hint)}</p>' if answer.hint else ""
        return f'<div class="answer">{question}{hint}{RULED}</div>'
    linked = re.sub(
        r"(Table|Figure|Listing)\u00a0(\d+)",
        lambda found: f'<a href="#{found[1].lower()}{found[2]}">{found[0]}</a>',
        page.numbers.rests_on(answer),
    )
    rest = html_prose(" ".join(filter(None, (answer.number, answer.why, answer.practice))))
    said = f"<b>{html_prose(answer.verdict)}</b> {rest}" if rest else html_prose(answer.verdict)
    source = f' <span class="quiet small">({linked})</span>' if linked else ""
    shaken = "".join(f'<p class="shaken">▲ {html_prose(caveat)}</p>' for caveat in answer.shaken_by)
    decided = (
        f'<details><summary title="{shown(answer.decided)}">How this was decided</summary>'
        f"<p>{html_prose(answer.decided)}</p></details>"
        if answer.decided
        else ""
    )
    return f'<div class="answer">{question}<div><p>{said}{source}</p>{shaken}{decided}</div></div>'
