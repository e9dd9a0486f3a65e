"""Results as a notebook shows them: the tables and sentences of reports as a piece of HTML without a page around it."""

from collections.abc import Iterator, Sequence

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.summary import Analysis
from scalewise.report.cells import estimate_cell
from scalewise.report.document import Cell, Column, Document, Paragraph, Section, Table
from scalewise.report.html import notebook_html
from scalewise.report.sections.any_experiment import overview

Block = Paragraph | Table


def measured_html(analysis: Analysis) -> str:
    """The answers of the arms, the table of each experiment, and reasons for doubt."""
    return _markup(_measured(analysis))


def comparisons_html(comparisons: Sequence[Comparison]) -> str:
    """A row for each pair, and what qualifies it."""
    return _markup(_compared(comparisons))


def _measured(analysis: Analysis) -> Iterator[Block]:
    answers = [one.text() for experiment in analysis.experiments for one in headlines_of(experiment.rows)]
    yield from map(Paragraph, answers if len(answers) <= MOST_HEADLINES else ())
    for experiment in analysis.experiments:
        yield Paragraph(f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name)
        yield overview(experiment)
        yield from map(_caveat, experiment.caveats)


def _compared(comparisons: Sequence[Comparison]) -> Iterator[Block]:
    columns = (
        Column("A", numeric=False),
        Column("B", numeric=False),
        Column("A's step", "ms"),
        Column("B's step", "ms"),
    )
    rows = tuple(
        (
            Cell(one.a),
            Cell(one.b),
            estimate_cell(one.a_step_seconds, 1e3),
            estimate_cell(one.b_step_seconds, 1e3),
            Cell(one.sentence),
        )
        for one in comparisons
    )
    yield Table("comparison", "B against A", (*columns, Column("answer", numeric=False)), rows)
    for one in comparisons:
        yield from map(Paragraph, one.notes)
        yield from map(_caveat, one.caveats)


def _caveat(caveat: Caveat) -> Paragraph:
    remedy = f"{caveat.remedy[:1].upper()}{caveat.remedy[1:]}"
    return Paragraph(f"{caveat.sign} {caveat.name}: {caveat.evidence}. {remedy}.")


def _markup(blocks: Iterator[Block]) -> str:
    return notebook_html(Document("notebook", "", (), (Section("all", "", tuple(blocks)),)))
