"""Renders a rehearsal as one self-contained HTML file: efficiency and throughput over ranks, and conclusions."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scalewise.analysis.estimate import Estimate, level_text
from scalewise.predict.advice import Changes
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.predicted_scaling import Figures, ScalingRow, ScalingTable, figures_against_base
from scalewise.predict.prediction import LEVEL
from scalewise.predict.prediction_text import (
    GUESSED_NOTE,
    base_text,
    bounds_text,
    change_notes,
    checks_text,
    cost_text,
    memory_notes,
    memory_text,
    predicted_word,
    ranks_text,
    rests_on,
    setting_text,
    threshold_text,
    title_text,
)
from scalewise.report.cells import interval_cell, number_cell
from scalewise.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    LinePlot,
    Mark,
    Paragraph,
    PlotSeries,
    Section,
    Table,
)
from scalewise.report.html import html_text

MOST_TICKS = 8
INTERVAL = f"{level_text(LEVEL)} interval"
INTERVALS = f"Intervals are of {level_text(LEVEL)}."
NOTE = f"Rows without a mark were measured. {INTERVALS}"


def write_rehearse_page(path: Path, answer: RehearsalAnswer, found: Conclusions) -> None:
    """Writes the page, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rehearse_page(answer, found), encoding="utf-8", errors="replace")


def rehearse_page(answer: RehearsalAnswer, found: Conclusions) -> str:
    """Returns the page; whatever comes from the script is text in it, never markup."""
    sections = tuple(section for section in _sections(answer, found) if section.blocks)
    arguments = " ".join(answer.args)
    subtitle = tuple(filter(None, ("scalewise rehearse", arguments, f"link {answer.link.name}")))
    document = Document("rehearse", title_text(answer), subtitle, sections, None)
    return html_text(document)


def _sections(answer: RehearsalAnswer, found: Conclusions) -> Iterator[Section]:
    table = found.scaling
    if table is not None:
        yield Section("scaling", "How it scales", (
            Paragraph(f"{setting_text(answer)} {base_text(table)}"),
            *((_efficiency(table, found), _throughput(table, found)) if table.further else ()),
            *_paragraphs([table.together] if table.together else []),
            *_paragraphs([f"Doubt: {table.doubt}"] if table.doubt else []),
            *_paragraphs(threshold_text(one, found.guesses) for one in found.thresholds),
            ranks_table(table, found.guesses),
        ))  # fmt: skip
        yield Section("bounds", "What bounds a step", tuple(_paragraphs(bounds_text(table, found.guesses))))
    yield Section("checks", "Self-check: predicted before it was measured", tuple(_paragraphs(checks_text(answer))))
    for changes in found.changes[-1:]:
        title = f"What to change at {ranks_text(changes.ranks)}"
        yield Section("changes", title, (changes_table(changes, found.guesses), *_paragraphs(change_notes(changes))))
    memory = (*map(memory_text, found.memory), *memory_notes(found.memory))
    yield Section("memory", "Memory", tuple(_paragraphs(memory)))
    costs = (cost_text(row, answer.device, found.guesses) for row in found.costs)
    yield Section("cost", "Cost", tuple(_paragraphs(costs)))
    rests = (f"{word.capitalize()}: {text}" for word, text in rests_on(answer, found))
    yield Section("rests", "What this rests on", tuple(_paragraphs(rests)))


def _paragraphs(texts: Iterator[str] | Sequence[str]) -> Iterator[Block]:
    return (Paragraph(text) for text in texts)


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
    plot = LinePlot("ranks", "efficiency, %", tuple(series), log_x=True, x_ticks=_ticks(table))
    return Figure("efficiency", "Efficiency against one rank", caption, plot)


def _throughput(table: ScalingTable, found: Conclusions) -> Figure:
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


def ranks_table(table: ScalingTable, guesses: Sequence[str]) -> Table:
    """A row for each number of ranks, measured or predicted."""
    columns = (
        Column("ranks"),
        Column("step", "ms"),
        Column("throughput", "samples/s"),
        Column("speedup"),
        Column("efficiency", "%"),
        Column("bound by", numeric=False),
        Column("ideal step", "ms"),
    )
    base = table.base
    alone = figures_against_base(base.step, base.samples, 1, base, table.kind)
    how = "measured" if base.measured else _mark(table.base_modelled)
    rows = [(*_figure_cells(1, alone, how), Cell("–"), Cell("–"))]
    rows += [cells for row in table.further for cells in _rows(row, _mark(bool(guesses)))]
    notes = (NOTE, *([f"{GUESSED_NOTE}."] if guesses else []))
    return Table("rehearse-scaling", "Each number of ranks", columns, tuple(rows), notes)


def _mark(guessed: bool) -> Mark:
    return "predicted*" if guessed else "predicted"


def _rows(row: ScalingRow, mark: Mark) -> Iterator[tuple[Cell, ...]]:
    ideal = row.ideal.step.value * 1e3
    if row.measured is not None:
        yield (*_figure_cells(row.ranks, row.measured, "measured"), Cell("–"), number_cell(ideal))
    predicted = _figure_cells(row.ranks, row.predicted, mark)
    yield (*predicted, Cell(row.bound), number_cell(ideal))


def _figure_cells(ranks: int, told: Figures, mark: Mark) -> tuple[Cell, ...]:
    return (
        Cell(str(ranks), float(ranks)),
        _cell(told.step, 1e3, mark),
        _cell(told.throughput, 1.0, mark) if told.throughput else Cell("–"),
        _cell(told.speedup, 1.0, mark) if ranks > 1 else Cell("1", 1.0),
        _cell(told.efficiency, 100.0, mark) if ranks > 1 else Cell("100", 100.0),
    )


def _cell(told: Estimate, scale: float, mark: Mark) -> Cell:
    return interval_cell(told.value * scale, told.low * scale, told.high * scale, level=told.level, mark=mark)


def changes_table(changes: Changes, guesses: Sequence[str]) -> Table:
    """A row for each change, the largest gain first."""
    columns = (
        Column("change", numeric=False),
        Column("throughput", "times"),
        Column("step", "ms"),
        Column("verdict", numeric=False),
    )
    rows = tuple(
        (
            Cell(one.what),
            _cell(one.gain, 1.0, _mark(bool(guesses or one.guesses))),
            _cell(one.step, 1e3, _mark(bool(guesses or one.guesses))),
            Cell(f"{one.verdict}{', by a guess' if one.guesses else ''}"),
        )
        for one in changes.changes
    )
    notes = (f"Each row is the model run again; the largest gain first. {INTERVALS}",)
    return Table("rehearse-changes", "What each change would do", columns, rows, notes)
