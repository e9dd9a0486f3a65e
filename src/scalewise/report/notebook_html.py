"""Results as a notebook shows them: the tables and sentences of reports as a piece of HTML without a page around it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.summary import Analysis
from scalewise.doctor.diagnosis_text import place_text, price_text, root_of, summary_text, verdict_text
from scalewise.doctor.finding import Diagnosis
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.prediction_text import checks_text, rests_on, setting_text, title_text
from scalewise.report.cells import EMPTY, estimate_cell
from scalewise.report.document import Cell, Column, Paragraph, Table
from scalewise.report.html import html_prose, shown
from scalewise.report.rehearse_page import changes_table, ranks_table
from scalewise.report.sections.any_experiment import overview
from scalewise.report.view import CellView, table_view

Block = Paragraph | Table
_RIGHT, _LEFT = ' style="text-align:right"', ' style="text-align:left"'


def measured_html(analysis: Analysis) -> str:
    """The answers of the arms, the table of each experiment, and reasons for doubt."""
    return "".join(_markup(_measured(analysis)))


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The summary and a table of the findings."""
    return "".join(_markup(_diagnosed(diagnosis)))


def rehearsal_html(answer: RehearsalAnswer, found: Conclusions) -> str:
    """The table over ranks, what to change, and what may not hold."""
    return "".join(_markup(_rehearsed(answer, found)))


def comparisons_html(comparisons: Sequence[Comparison]) -> str:
    """A row for each pair, and what qualifies it."""
    return "".join(_markup(_compared(comparisons)))


def _measured(analysis: Analysis) -> Iterator[Block]:
    answers = [one.text() for experiment in analysis.experiments for one in headlines_of(experiment.rows)]
    yield from map(Paragraph, answers if len(answers) <= MOST_HEADLINES else ())
    for experiment in analysis.experiments:
        yield Paragraph(f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name)
        yield overview(experiment)
        yield from map(_caveat, experiment.caveats)


def _diagnosed(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Paragraph(summary_text(diagnosis))
    if diagnosis.failure:
        yield Paragraph(f"The script failed by itself: {diagnosis.failure}")
    root = root_of(Path(diagnosis.script))
    rows = tuple(
        (
            Cell(verdict_text(one)),
            Cell(one.check),
            Cell(place_text(one.where, root) if one.where else EMPTY),
            Cell(one.sentence),
            Cell(price_text(one.price) if one.price else EMPTY),
            Cell(one.fix or EMPTY),
        )
        for one in diagnosis.findings
    )
    titles = ("verdict", "check", "where", "what", "price", "fix")
    if rows:
        yield Table("findings", "Findings", tuple(Column(title, numeric=False) for title in titles), rows)
    yield from map(Paragraph, diagnosis.notes)


def _rehearsed(answer: RehearsalAnswer, found: Conclusions) -> Iterator[Block]:
    yield Paragraph(f"{title_text(answer)}. {setting_text(answer)}")
    if found.scaling is not None:
        yield ranks_table(found.scaling, found.guesses)
        told = (found.scaling.together, f"Doubt: {found.scaling.doubt}" if found.scaling.doubt else "")
        yield from map(Paragraph, filter(None, told))
    for changes in found.changes[-1:]:
        yield changes_table(changes, found.guesses)
    yield from map(Paragraph, checks_text(answer))
    yield from (Paragraph(f"{word.capitalize()}: {text}") for word, text in rests_on(answer, found))


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


def _markup(blocks: Iterator[Block]) -> Iterator[str]:
    for block in blocks:
        yield _table(block) if isinstance(block, Table) else f"<p>{html_prose(block.text)}</p>"


def _table(table: Table) -> str:
    """Returns a table as HTML, in which everything that comes from a script is text, never markup."""
    view = table_view(table)
    styles = [_RIGHT if column.numeric else _LEFT for column in table.columns]
    heads = "".join(
        f"<th{style}>{shown(column.title)}{f' ({shown(column.unit)})' if column.unit else ''}</th>"
        for column, style in zip(table.columns, styles, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{style}>{_cell(cell, row.mark if place == 0 else '')}</td>"
            for place, (cell, style) in enumerate(zip(row.cells, styles, strict=True))
        )
        + "</tr>"
        for row in view.rows
    )
    notes = [f"{letter} {text}" for letter, text in view.footnotes] + list(table.notes)
    below = "".join(f"<p><small>{html_prose(note)}</small></p>" for note in notes)
    head = f"<caption>{html_prose(table.title)}</caption><thead><tr>{heads}</tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>{below}"


def _cell(cell: CellView, row_mark: str) -> str:
    """Returns a cell as HTML; the first cell of a row also has the row's mark."""
    beside = " ".join(filter(None, (cell.interval, row_mark, cell.mark, cell.footnote)))
    text = shown(cell.text).replace("\n", "<br>")
    return f"{text} <small>{shown(beside)}</small>" if beside else text
