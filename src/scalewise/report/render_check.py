"""Checks every block before it is set: one that cannot be shown becomes a sentence, so that the report is made."""

from collections.abc import Callable
from dataclasses import replace

from scalewise.report.document import Block, Document, Figure, Paragraph, Table
from scalewise.report.draw import draw


def showable(document: Document, say: Callable[[str], None]) -> Document:
    """Returns the document with a sentence for each figure that cannot be drawn or table whose rows do not fit."""
    sections = tuple(
        replace(section, blocks=tuple(_shown(block, say) for block in section.shown_on("page")))
        for section in document.sections
    )
    return replace(document, sections=sections)


def _shown(block: Block, say: Callable[[str], None]) -> Block:
    why = _table_trouble(block) if isinstance(block, Table) else _figure_trouble(block)
    if not why or not isinstance(block, (Table, Figure)):
        return block
    what = "table" if isinstance(block, Table) else "figure"
    say(f"{what} {block.id} could not be shown: {why}")
    return Paragraph(f"A {what} is missing here ({block.title or block.id}): {why}.")


def _table_trouble(table: Table) -> str:
    lengths = {len(row) for row in table.rows} - {len(table.columns)}
    return f"rows of {min(lengths)} cells under {len(table.columns)} columns" if lengths else ""


def _figure_trouble(block: Block) -> str:
    if not isinstance(block, Figure):
        return ""
    try:
        draw(block)
    except Exception as error:  # whatever is wrong with a plot, the rest of the report is made
        return f"{type(error).__name__}: {error}"
    return ""
