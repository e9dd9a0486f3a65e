"""Shows a document in a terminal: sentences in at most 80 columns, tables as wide as they need, plots as letters.

What comes from a script is plain text here: control characters are made visible, and nothing in it is markup.
"""

import textwrap
from collections.abc import Callable, Sequence

from rich import box
from rich.console import JustifyMethod
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from scalewise.analysis.estimate import CONFIDENCE, level_text
from scalewise.console.output import Output, printable
from scalewise.report.document import (
    EMPTY,
    Answer,
    Block,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Formula,
    Judgement,
    LinePlot,
    Listing,
    Paragraph,
    PlotSeries,
    Table,
    Tone,
)
from scalewise.report.view import row_view
from scalewise.units import THIN, three_digits

MOST_COLUMNS = 80
PLOT_COLUMNS = 50
_INDENT, _LABEL = 3, 7  # columns before the parts of a judgement, and of `where  `
_IN_LIST = 13  # columns of `[yes] H2.1   `
_STYLES: dict[Tone, str] = {
    "plain": "",
    "quiet": "",
    "strong": "bold",
    "good": "green",
    "wrong": "bold red",
    "slow": "bold yellow",
    "suspected": "yellow",
    "note": "bold",
}
_SIGNS: dict[str, str] = {"oversubscribed": "*", "emulated": "~", "failed": "!", "missing": "?"}  # other marks: words


def show_document(output: Output, document: Document) -> None:
    """Prints the document; a blank line stands before each section."""
    heading = ": ".join(filter(None, (document.title, ", ".join(document.subtitle))))
    if heading:
        show_paragraph(output, heading, "bold")
    begun = False
    for section in document.sections:
        blocks = section.shown_on("terminal")
        if not blocks:
            continue
        if begun or section.title:
            output.show()
        if section.title:
            show_paragraph(output, section.title, "bold")
        begun = True
        for place, block in enumerate(blocks):
            _show_block(output, block, first=place == 0)


def show_paragraph(output: Output, text: str, style: str = "") -> None:
    """Prints a text filled to the width of the terminal, at most 80 columns."""
    _show_filled(output, text, "", "  ", style)


def _show_filled(output: Output, text: str, first: str, rest: str, style: str = "") -> None:
    width = min(output.data.width, MOST_COLUMNS)
    bound = printable(text).replace(" %", "\xa0%")  # a number and its sign stay together
    filled = textwrap.fill(
        bound, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
    output.show(filled.replace("\xa0%", " %"), style)


def _show_block(output: Output, block: Block, first: bool) -> None:
    if isinstance(block, Paragraph):
        show_paragraph(output, f"{block.label}: {block.text}" if block.label else block.text, _STYLES[block.tone])
    elif isinstance(block, Table):
        _show_table(output, block, first)
    elif isinstance(block, Judgement):
        _show_judgement(output, block)
    elif isinstance(block, Facts):
        _show_facts(output, block)
    elif isinstance(block, Figure):
        if isinstance(block.plot, LinePlot) and block.plot.rows:
            _show_plot(output, block, block.plot)
    elif isinstance(block, Code | Listing):
        for line in block.text.splitlines():
            output.show(f"    {line}")
    elif isinstance(block, Formula):
        show_paragraph(output, block.plain)
    else:
        _show_answer(output, block)


def _show_answer(output: Output, answer: Answer) -> None:
    output.show()
    show_paragraph(output, f"{answer.row}  {answer.question}", "bold")
    for text in (answer.verdict, answer.number, answer.why, answer.practice, *answer.shaken_by):
        if text:
            show_paragraph(output, text)


def _show_facts(output: Output, facts: Facts) -> None:
    table = RichTable.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.rows:
        table.add_row(Text(printable(name)), Text(printable(value)))
    output.data.print(table)


def _show_judgement(output: Output, one: Judgement) -> None:
    """Prints a numbered judgement as a paragraph with labelled parts, one of a list as a line with what shows it."""
    if one.number is None:
        mark = f"[{one.verdict}]"
        output.show(f"{mark:<5} {one.name:<6} {one.sentence}", style=_STYLES[one.tone])
        indent, label = _IN_LIST, 0
    else:
        output.show()
        head = Text(f"{one.number}. ")
        head.append(one.verdict.upper(), style=_STYLES[one.tone])
        head.append(printable(f"  {one.name}"))
        output.data.print(head, soft_wrap=True)
        indent, label = _INDENT, _LABEL
        _show_filled(output, one.sentence, " " * indent, " " * indent)
    width = max(40, min(output.data.width, MOST_COLUMNS))
    places = [place for quote in one.quotes for place in quote.places]
    for word, place in zip(("where", *["also"] * len(places)), places, strict=False):
        output.show(f"{' ' * indent}{word if label else '':<{label}}{place.name}")
        if place.text:
            quoted = f"{' ' * (indent + label)}{place.line} | {printable(place.text)}"
            output.show(quoted if len(quoted) <= width else f"{quoted[: width - 4]} ...", style="cyan")
    for word, texts in one.facts:
        for index, text in enumerate(texts):
            begin = (f"{word:<{label}}" if label else f"{word}: " * bool(word)) if not index else " " * label
            _show_filled(output, text, f"{' ' * indent}{begin}", " " * (indent + label))
    for index, line in enumerate(one.fix.splitlines()):
        output.show(f"{' ' * indent}{'' if index else 'fix':<{label}}{line}".rstrip(), style="green")


def _show_table(output: Output, table: Table, first: bool) -> None:
    """Prints a table and what is said below it; one that is too wide is shown without columns declared `extra`."""
    if not first:
        output.show()
    dropped: list[Column] = []
    shown = _rich_table(table, dropped)
    while _width(output, shown) > output.data.width and (
        more := max((one for one in table.columns if one.extra and one not in dropped), key=_extra, default=None)
    ):
        dropped.append(more)
        shown = _rich_table(table, dropped)
    output.table(shown)
    if dropped:
        show_paragraph(output, f"A wider terminal also shows: {', '.join(map(_head, reversed(dropped)))}.")
    alike = {row_view(row).mark for row in table.rows}
    if len(alike) == 1 and (mark := next(iter(alike))) and mark not in _SIGNS:
        show_paragraph(output, f"All rows are {mark}.")
    marks = {cell.mark for row in table.rows for cell in row}
    for mark, meaning in table.marks:
        if mark in marks:
            show_paragraph(output, f"{' '.join(filter(None, (_SIGNS.get(mark), mark)))}: {meaning}.")
    doubts = dict.fromkeys(cell.doubt for row in table.rows for cell in row if cell.doubt)
    for text in (*doubts, *table.notes):
        show_paragraph(output, text)


def _extra(column: Column) -> int:
    return column.extra


def _width(output: Output, table: RichTable) -> int:
    return Measurement.get(output.data, output.data.options.update(max_width=10_000), table).maximum


def _head(column: Column) -> str:
    return column.short or ", ".join(filter(None, (column.title, column.unit)))


def _rich_table(table: Table, dropped: Sequence[Column]) -> RichTable:
    """Returns the table without the dropped columns.

    The sign of a row stands at its first number; if rows are marked by words, these have a column after the name.
    """
    rows = [row_view(row) for row in table.rows]
    words = _in_words(table)
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    kept = [index for index, column in enumerate(table.columns) if column not in dropped]
    marked = next((index for index in kept if table.columns[index].numeric), kept[0])
    for index in kept:
        column = table.columns[index]
        justify: JustifyMethod = "right" if column.numeric else "left"
        shown.add_column(Text(printable(_head(column))), justify=justify, no_wrap=True)
        if column.within == "share":
            level = next((cells[index].level for cells in table.rows if cells[index].interval), CONFIDENCE)
            shown.add_column(f"{level_text(level)} ±", justify="right", no_wrap=True)
        if words and index == kept[0]:
            shown.add_column("", no_wrap=True)
    groups = dict(table.groups)
    for number, (row, cells) in enumerate(zip(rows, table.rows, strict=True)):
        if number in groups:
            shown.add_row(Text(printable(groups[number])))
        texts: list[Text] = []
        for index in kept:
            text = Text(printable(_cell_text(cells[index], table.columns[index])))
            mark = row.mark if index == marked else row.cells[index].mark
            text.append(_SIGNS.get(mark, "") or (f" {mark}" if mark and index != marked else ""))
            texts.append(text)
            if table.columns[index].within == "share":
                texts.append(Text(_share(cells[index])))
            if words and index == kept[0]:
                texts.append(Text("measured" if not row.mark else row.mark if row.mark not in _SIGNS else ""))
        shown.add_row(*texts)
    return shown


def _in_words(table: Table) -> bool:
    """Tells whether the rows have different marks, of which some are words."""
    marks = {row_view(row).mark for row in table.rows}
    return len(marks) > 1 and any(mark and mark not in _SIGNS for mark in marks)


def _cell_text(cell: Cell, column: Column) -> str:
    """Returns a cell with its interval in the form that its column declares."""
    shown = cell.short or cell.text
    if shown == EMPTY:
        return "-"
    text = shown.replace(THIN, ",")
    if column.unit_beside:
        text = f"{text} {column.unit}"
    if not cell.interval or cell.low is None or cell.high is None:
        return text
    if column.within == "half":
        return f"{text} ±{three_digits((cell.high - cell.low) / 2)}"
    return f"{text} {cell.interval.replace(THIN, ',')}" if column.within == "ends" else text


def _share(cell: Cell) -> str:
    """Returns half the interval as a share of the value."""
    if not cell.interval or not cell.number or cell.low is None or cell.high is None:
        return "-"
    return f"{three_digits(50 * (cell.high - cell.low) / abs(cell.number))} %"


def _show_plot(output: Output, figure: Figure, plot: LinePlot) -> None:
    """Prints one row for each number on the x axis: values, and the intervals of what was predicted."""
    most = max(one for series in plot.series for one in series.y)
    at: Callable[[float], int] = lambda y: max(0, min(PLOT_COLUMNS - 1, round(y / most * (PLOT_COLUMNS - 1))))  # noqa: E731
    output.show()
    show_paragraph(output, f"{figure.title}: ( * ) predicted and its interval, o measured", "bold")
    ruler = [" "] * (PLOT_COLUMNS + 6)
    for guide in (0.0, *plot.guides, most):
        label = f"{guide:g}"
        ruler[at(guide) : at(guide) + len(label)] = label
    margin = max(len(plot.y_label), *(len(f"{x:g} {plot.x_label}") for x in plot.rows))
    output.show(f"{plot.y_label:>{margin}}  {''.join(ruler).rstrip()}")
    for x in plot.rows:
        output.show(f"{f'{x:g} {plot.x_label}':>{margin}} |{_plot_row(plot, x, at)}|")


def _plot_row(plot: LinePlot, x: float, at: Callable[[float], int]) -> str:
    drawn = [" "] * PLOT_COLUMNS
    for guide in plot.guides:
        drawn[at(guide)] = ":"
    predicted = [(one, one.x.index(x)) for one in plot.series if one.style == "predicted" and x in one.x]
    measured = [(one, one.x.index(x)) for one in plot.series if one.style == "measured" and x in one.x]
    for one, index in predicted:
        low, high = _ends(one, index)
        drawn[at(low) : at(high) + 1] = "-" * (at(high) - at(low) + 1)
        drawn[at(low)], drawn[at(high)] = "(", ")"
    for one, index in measured:
        drawn[at(one.y[index])] = "o"
    for one, index in predicted:
        place = at(one.y[index])
        drawn[place] = "@" if drawn[place] == "o" else "*"
    return "".join(drawn)


def _ends(series: PlotSeries, index: int) -> tuple[float, float]:
    return (series.low[index], series.high[index]) if series.low else (series.y[index], series.y[index])
