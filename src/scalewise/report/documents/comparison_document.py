"""The document of comparisons: the two steps of each pair, the verdict, and what qualifies it."""

from collections.abc import Iterator, Sequence

from scalewise.analysis.comparison import Comparison
from scalewise.analysis.estimate import Estimate, level_text
from scalewise.report.cells import estimate_cell, text_cell
from scalewise.report.document import Block, Column, Document, Only, Paragraph, Section, Table
from scalewise.report.documents.measurement_document import caveat_paragraphs
from scalewise.units import seconds_text


def comparison_document(comparisons: Sequence[Comparison]) -> Document:
    """Returns every pair; a page has them in a table as well."""
    sections = (
        Section("pairs", "", (Only("page", (_table(comparisons),)),)),
        *(Section(f"pair-{number}", "", tuple(_pair(one))) for number, one in enumerate(comparisons, 1)),
    )
    return Document("comparison", "", (), sections, made_by="scalewise compare", numbered=False)


def _table(comparisons: Sequence[Comparison]) -> Table:
    columns = (
        Column("A", numeric=False),
        Column("B", numeric=False),
        Column("A's step", "ms"),
        Column("B's step", "ms"),
        Column("B is", numeric=False),
    )
    rows = tuple(
        (
            text_cell(one.a),
            text_cell(one.b),
            estimate_cell(one.a_step_seconds, 1e3),
            estimate_cell(one.b_step_seconds, 1e3),
            text_cell("not to be told" if one.answer == "cannot tell" else one.answer),
        )
        for one in comparisons
    )
    levels = " and ".join(dict.fromkeys(level_text(one.level) for one in comparisons))
    return Table("comparison", "B against A", columns, rows, caption=f"Brackets: {levels} intervals.")


def _pair(one: Comparison) -> Iterator[Block | Only]:
    steps = ((one.a, one.a_step_seconds), (one.b, one.b_step_seconds))
    yield Only("terminal", tuple(Paragraph(_step_text(step), name) for name, step in steps if step is not None))
    yield from map(Paragraph, (one.sentence, *one.notes))
    for caveat in one.caveats:  # each on its own: it says whether it is about A or B
        yield from caveat_paragraphs((caveat,))


def _step_text(step: Estimate) -> str:
    interval = f"{level_text(step.level)} interval {seconds_text(step.low)} to {seconds_text(step.high)}"
    return f"{seconds_text(step.value)} a step ({interval})"
