"""The document of a rehearsal: the table over ranks, efficiency and speedup, and what follows from them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from scalewise.analysis.estimate import Estimate, level_text
from scalewise.analysis.run_files import files_lines
from scalewise.predict.advice import Changes
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.predicted_scaling import Figures, ScalingRow, ScalingTable, figures_against_base
from scalewise.predict.prediction import LEVEL
from scalewise.predict.prediction_text import (
    base_text,
    bounds_text,
    certain,
    change_notes,
    checks_text,
    cost_text,
    memory_notes,
    memory_text,
    order_text,
    predicted_word,
    rests_on,
    setting_text,
    threshold_text,
    title_text,
)
from scalewise.report.cells import PREDICTED_DIGITS, interval_cell, number_cell
from scalewise.report.document import (
    EMPTY,
    Block,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    LinePlot,
    Mark,
    Paragraph,
    PlotSeries,
    Section,
    Table,
)
from scalewise.units import ranks_phrase

MOST_TICKS = 8
GAIN_DIGITS = 3  # a gain is a ratio of two predictions, in which what both do not know cancels
GUIDES = (50.0, 80.0)  # percent of efficiency
INTERVAL = f"{level_text(LEVEL)} interval"
MARKS: tuple[tuple[Mark, str], ...] = (("predicted*", "rests on guesses, which are told at the end"),)


def rehearsal_document(answer: RehearsalAnswer, found: Conclusions) -> Document:
    """Returns the whole answer; of the changes, those for the largest number of ranks."""
    subtitle = tuple(filter(None, (" ".join(answer.args), f"link {answer.link.name}")))
    sections = tuple(section for section in _sections(answer, found) if section.blocks)
    return Document("rehearse", title_text(answer), subtitle, sections, made_by="scalewise rehearse")


def _sections(answer: RehearsalAnswer, found: Conclusions) -> Iterator[Section]:
    table, guesses = found.scaling, found.guesses
    yield _texts("setting", "", (setting_text(answer), *([base_text(table)] if table else [])))
    if table is not None:
        doubts = [Paragraph(table.together)] if table.together else []
        doubts += [Paragraph(table.doubt, "Doubt")] if table.doubt else []
        figures = (_efficiency(table, found), _speedup(table, found)) if table.further else ()
        yield Section("scaling", "How it scales", (_ranks_table(table, guesses), *doubts, *figures))
        yield _texts("orders", "Which is quicker", map(order_text, found.orders))
        yield _texts("thresholds", "Where it falls off", (threshold_text(one, guesses) for one in found.thresholds))
        yield _texts("bounds", "What bounds a step", bounds_text(table, guesses))
    yield _texts("checks", "Self-check: predicted before it was measured", checks_text(answer))
    for changes in found.changes[-1:]:
        tables = [_changes_table(changes, guesses)] if changes.changes else []
        notes = map(Paragraph, change_notes(changes))
        yield Section("changes", f"What to change at {ranks_phrase(changes.ranks)}", (*tables, *notes))
    yield _texts("memory", "Memory", (*map(memory_text, found.memory), *memory_notes(found.memory)))
    yield _texts("cost", "Cost", (cost_text(row, answer.device, guesses) for row in found.costs))
    rests = tuple(Paragraph(text, word) for word, text in rests_on(answer, found))
    yield Section("rests", "What this rests on", rests)
    for one in answer.refused:
        title = f"What the script itself said last as one of {one.ranks} ranks"
        yield Section(f"words-{one.ranks}", title, (Code("\n".join(one.words)),) if one.words else ())
    where: list[Block] = [Facts((("runs", answer.folder),))] if answer.folder else []
    yield Section("files", "Files", (*map(Paragraph, files_lines(answer.files)), *where))


def _texts(name: str, title: str, texts: Iterable[str]) -> Section:
    return Section(name, title, tuple(map(Paragraph, texts)))


def _efficiency(table: ScalingTable, found: Conclusions) -> Figure:
    numbers = tuple(float(one.ranks) for one in found.curve)
    shares = [one.efficiency for one in found.curve]
    series = [
        _series("predicted", numbers, shares, 100.0),
        *_measured(table, lambda told: told.efficiency, 100.0),
        PlotSeries("ideal", (1.0, numbers[-1]), (100.0, 100.0), style="ideal"),
    ]
    word = predicted_word(found.guesses).capitalize()
    where = "of" if table.together else "between"
    as_well = "" if table.together else " as well"
    caption = f"{word} {where} the numbers of ranks that were rehearsed{as_well}, with its {INTERVAL}."
    rows = tuple(float(row.ranks) for row in table.further)
    ticks = _ticks(table)
    plot = LinePlot("ranks", "efficiency, %", tuple(series), log_x=True, x_ticks=ticks, rows=rows, guides=GUIDES)
    return Figure("efficiency", "Efficiency against one rank", caption, plot)


def _speedup(table: ScalingTable, found: Conclusions) -> Figure:
    """Returns the figure of speedups, which is throughput over that of one rank."""
    rows = table.further
    numbers = tuple(float(row.ranks) for row in rows)
    series = [
        _series("predicted", numbers, [row.predicted.speedup for row in rows], 1.0),
        *_measured(table, lambda told: told.speedup, 1.0),
        PlotSeries("ideal", (1.0, *numbers), (1.0, *(row.ideal.speedup.value for row in rows)), style="ideal"),
    ]
    word = predicted_word(found.guesses)
    caption = f"Throughput over that of one rank, {word} with its {INTERVAL}; ideal: as many times as ranks."
    plot = LinePlot("ranks", "speedup", tuple(series), log_x=True, log_y=True, x_ticks=_ticks(table))
    return Figure("speedup", "Speedup", caption, plot)


def _series(name: str, numbers: tuple[float, ...], told: Sequence[Estimate], scale: float) -> PlotSeries:
    return PlotSeries(
        name,
        numbers,
        tuple(one.value * scale for one in told),
        tuple(one.low * scale for one in told),
        tuple(one.high * scale for one in told),
        "predicted" if name == "predicted" else "measured",
    )


def _measured(table: ScalingTable, chosen: Callable[[Figures], Estimate], scale: float) -> list[PlotSeries]:
    rows = [(row.ranks, row.measured) for row in table.further if row.measured is not None]
    if not rows:
        return []
    numbers = tuple(float(ranks) for ranks, _ in rows)
    return [_series("measured", numbers, [chosen(told) for _, told in rows], scale)]


def _ticks(table: ScalingTable) -> tuple[float, ...]:
    """Returns the ticks: one rank and the rehearsed numbers, but no more than there is room for."""
    numbers = [1, *(row.ranks for row in table.further)]
    every = -(-len(numbers) // MOST_TICKS)
    return tuple(float(one) for one in numbers[::every])


def _ranks_table(table: ScalingTable, guesses: Sequence[str]) -> Table:
    """A row for each number of ranks, measured or predicted."""
    columns = (
        Column("ranks"),
        Column("step", "ms"),
        Column("throughput", "samples/s", short="samples/s", within="none", extra=1),
        Column("speedup", within="none"),
        Column("efficiency", "%"),
        Column("bound by", numeric=False, extra=2),
        Column("ideal step", "ms", extra=3),
    )
    base = table.base
    alone = figures_against_base(base.step, base.samples, 1, base, table.kind)
    how = "measured" if base.measured else _mark(table.base_modelled)
    rows = [(*_figure_cells(1, alone, how), Cell(EMPTY), Cell(EMPTY))]
    rows += [cells for row in table.further for cells in _rows(row, _mark(bool(guesses)))]
    caption = "Rows without a mark were measured."
    return Table("rehearse-scaling", "Each number of ranks", columns, tuple(rows), caption=caption, marks=MARKS)


def _mark(guessed: bool) -> Mark:
    return "predicted*" if guessed else "predicted"


def _rows(row: ScalingRow, mark: Mark) -> Iterator[tuple[Cell, ...]]:
    ideal = row.ideal.step.value * 1e3
    if row.measured is not None:
        yield (*_figure_cells(row.ranks, row.measured, "measured"), Cell(EMPTY), number_cell(ideal))
    predicted = _figure_cells(row.ranks, row.predicted, mark)
    yield (*predicted, Cell(row.bound), number_cell(ideal))


def _figure_cells(ranks: int, told: Figures, mark: Mark) -> tuple[Cell, ...]:
    return (
        Cell(str(ranks), float(ranks)),
        _cell(told.step, 1e3, mark),
        _cell(told.throughput, 1.0, mark) if told.throughput else Cell(EMPTY),
        _cell(told.speedup, 1.0, mark) if ranks > 1 else Cell("1", 1.0),
        _cell(told.efficiency, 100.0, mark) if ranks > 1 else Cell("100", 100.0),
    )


def _cell(told: Estimate, scale: float, mark: Mark, most_digits: int = PREDICTED_DIGITS) -> Cell:
    ends = told.low * scale, told.high * scale
    return interval_cell(told.value * scale, *ends, level=told.level, mark=mark, most_digits=most_digits)


def _changes_table(changes: Changes, guesses: Sequence[str]) -> Table:
    """A row for each change, the largest gain first."""
    columns = (
        Column("change", numeric=False),
        Column("throughput", "times", short="throughput x"),
        Column("step", "ms", extra=1),
        Column("verdict", numeric=False),
        Column("order certain", numeric=False, extra=2),
    )
    rows = tuple(
        (
            Cell(one.what),
            _cell(one.gain, 1.0, _mark(bool(guesses or one.guesses)), GAIN_DIGITS),
            _cell(one.step, 1e3, _mark(bool(guesses or one.guesses))),
            Cell(one.verdict),
            Cell(certain(one.certainty)) if one.certainty is not None else Cell(EMPTY),
        )
        for one in changes.changes
    )
    notes = (
        "Each row is the model run again; the largest gain first.",
        "Order certain: the probability that a row gains more than the one below it.",
    )
    return Table("rehearse-changes", "What each change would do", columns, rows, notes, marks=MARKS)
