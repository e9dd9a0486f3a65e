"""A document as one HTML file that needs nothing else: no network, no other file, no script to be read."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from scalewise.explain.answer import Answer
from scalewise.report.document import Block, Code, Document, Figure, Formula, Paragraph, Section
from scalewise.report.draw import draw
from scalewise.report.html_table import table_markup
from scalewise.report.svg_page import svg_markup
from scalewise.report.view import Numbers, bound_text, numbers_of, plain_text, typeset

PAGE = Path(__file__).with_name("page.html")
POINTS_PER_REM = 7.55  # letters in figures are then as large as those around them
_PLACE = re.compile(r"\{\{(title|subtitle|contents|body)\}\}")


def html_text(document: Document, runs: Path, out: Path) -> str:
    """The page; its links to raw rows lead from `out` to the folders under `runs`."""
    numbers = numbers_of(document)
    ids = {section.id: f"s{number}" for number, section in enumerate(document.sections, 1)}
    body = [
        f'<section id="{ids[section.id]}"><h2><span class="no">{number}</span> {shown(section.title)}</h2>'
        f"{''.join(_blocks(section, numbers, runs, out))}</section>"
        for number, section in enumerate(document.sections, 1)
    ]
    contents = [
        f'<li><a href="#{ids[section.id]}">{shown(section.title)}</a></li>' for section in document.sections
    ]  # fmt: skip
    return page_text(document.title, document.subtitle, contents, body)


def page_text(title: str, subtitle: str, contents: Sequence[str], body: Sequence[str]) -> str:
    """The page around what is given: title and subtitle as text, contents and body as HTML."""
    parts = {
        "title": shown(title),
        "subtitle": " · ".join(f'<span class="whole">{shown(part)}</span>' for part in subtitle.split(" · ")),
        "contents": "\n".join(contents),
        "body": "\n".join(body),
    }
    # In one pass: what is put in is not looked at again.
    return _PLACE.sub(lambda found: parts[found[1]], PAGE.read_text(encoding="utf-8"))


def shown(text: str) -> str:
    """Text as HTML, with control characters made visible."""
    return escape(plain_text(text))


def prose(text: str) -> str:
    """Sentences with proper signs; what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", shown(bound_text(text)))


def _blocks(section: Section, numbers: Numbers, runs: Path, out: Path) -> Iterator[str]:
    """Neighbouring figures share a row."""
    row: list[str] = []
    for block in section.blocks:
        if isinstance(block, Figure):
            row.append(_figure(block, numbers))
            continue
        if row:
            yield f'<div class="row">{"".join(row)}</div>'
            row = []
        yield _block(block, numbers, runs, out)
    if row:
        yield f'<div class="row">{"".join(row)}</div>'


def _block(block: Block, numbers: Numbers, runs: Path, out: Path) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{prose(block.text)}</p>"
    if isinstance(block, Code):
        return f'<pre tabindex="0"><code>{shown(block.text)}</code></pre>'
    if isinstance(block, Formula):
        return f'<p class="formula" role="math">{shown(block.plain)}</p>'
    if isinstance(block, Answer):
        return _answer(block, numbers)
    assert not isinstance(block, Figure)
    return table_markup(block, numbers.tables[block.id], runs, out)


def _figure(figure: Figure, numbers: Numbers) -> str:
    number = numbers.figures[figure.id]
    wide = " wide" if figure.width > 0.5 else ""
    drawing = draw(figure)
    picture = svg_markup(drawing, f"f{number}", f"{figure.title}. {figure.caption}")
    most = f"max-width:{drawing.width_points / POINTS_PER_REM:.1f}rem"
    dot = "" if figure.title.endswith((".", "?")) else "."
    return (
        f'<figure id="figure{number}" class="drawn{wide}" style="{most}">{picture}<figcaption><b>Figure {number}.</b> '
        f'{shown(typeset(figure.title))}{dot} <span class="quiet">{prose(figure.caption)}</span></figcaption>'
        "</figure>"
    )


def _answer(answer: Answer, numbers: Numbers) -> str:
    rests = shown(numbers.rests_on(answer))
    linked = re.sub(
        r"(Table|Figure) (\d+)", lambda found: f'<a href="#{found[1].lower()}{found[2]}">{found[0]}</a>', rests
    )  # fmt: skip
    because = f"Because {prose(answer.condition)}. " if answer.condition else ""
    return (
        f'<div class="answer"><p class="question"><b>{shown(answer.row)}</b> {shown(answer.question)}</p>'
        f"<div><p>{prose(answer.text)}</p>"
        f'<p class="quiet small">{because}{f"Rests on {linked}." if linked else ""}</p></div></div>'
    )
