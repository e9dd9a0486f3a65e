"""Shows a rehearsal in the terminal: the table over ranks, efficiency as a plot, and what follows from them."""

from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.table import Table

from scalewise.analysis.run_files import files_lines
from scalewise.console.output import Output, printable
from scalewise.console.terminal import show_paragraph
from scalewise.predict.advice import Changes
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.predicted_scaling import Figures, ScalingRow, ScalingTable, figures_against_base
from scalewise.predict.prediction_text import (
    GUESSED,
    GUESSED_NOTE,
    base_text,
    bounds_text,
    change_notes,
    checks_text,
    cost_text,
    memory_notes,
    memory_text,
    percent_interval,
    predicted_word,
    range_text,
    ranks_text,
    rate_text,
    rests_on,
    setting_text,
    step_text,
    threshold_text,
    title_text,
)
from scalewise.units import three_digits

PLOT_COLUMNS = 50  # from 0 to 100 %
MOST_EFFICIENCY = 1.0
LINES = (0.5, 0.8)  # of efficiency, across the plot

HELPS = {"helps": "yes", "may help": "maybe", "does not help": "no", "does not fit": "no room"}


def show_rehearsal(output: Output, answer: RehearsalAnswer, found: Conclusions) -> None:
    """Prints the whole answer; everything in it that comes from the script is treated as plain text."""
    output.show(title_text(answer), style="bold")
    show_paragraph(output, setting_text(answer))
    if found.scaling is not None:
        _show_scaling(output, found.scaling, found)
    _section(output, "Self-check: predicted before it was measured", checks_text(answer))
    for changes in found.changes[-1:]:
        _show_changes(output, changes, predicted_word(found.guesses))
    _section(output, "Memory", [*map(memory_text, found.memory), *memory_notes(found.memory)])
    _section(output, "Cost", [cost_text(row, answer.device, found.guesses) for row in found.costs])
    _section(output, "What this rests on", [f"{word}: {text}" for word, text in rests_on(answer, found)])
    _section(output, "Files", files_lines(answer.files))
    if answer.folder:
        output.show()
        output.show(f"The runs are in {answer.folder}")


def _show_scaling(output: Output, table: ScalingTable, found: Conclusions) -> None:
    show_paragraph(output, base_text(table))
    output.show()
    output.table(_table(table, found.guesses))
    if found.guesses:
        output.show(GUESSED_NOTE)
    if table.together:
        show_paragraph(output, table.together)
    if table.doubt:
        show_paragraph(output, f"Doubt: {table.doubt}")
    if table.further:
        output.show()
        output.show("Efficiency against one rank: ( * ) predicted and its interval, o measured", style="bold")
        for line in _plot(table.further):
            output.show(line)
    _section(output, "Where it falls off", [threshold_text(threshold, found.guesses) for threshold in found.thresholds])
    _section(output, "What bounds a step", bounds_text(table, found.guesses))


def _section(output: Output, title: str, lines: Sequence[str]) -> None:
    if lines:
        output.show()
        output.show(title, style="bold")
        for line in lines:
            show_paragraph(output, line)


def _table(table: ScalingTable, guesses: Sequence[str]) -> Table:
    """The table over numbers of ranks, one unit for all steps; each row says whether it is measured or predicted."""
    longest, base = max(row.predicted.step.value for row in table.rows), table.base
    unit, scale = next(((name, 1 / size) for name, size in (("s", 1.0), ("ms", 1e-3)) if longest >= size), ("us", 1e6))
    shown = _plain_table()
    for head in ("ranks", f"step, {unit}", "samples/s", "speedup", "efficiency, %"):
        shown.add_column(head, no_wrap=True)
    alone = figures_against_base(base.step, base.samples, 1, base, table.kind)
    word = "measured" if base.measured else f"rehearsed{GUESSED if table.base_modelled else ''}"
    shown.add_row(_ranks_cell(1, word), *_cells(alone, scale)[:2], "1", "100")
    for row in table.further:
        for word, told in _figures(row):
            how = word if word == "measured" else predicted_word(guesses)
            shown.add_row(_ranks_cell(row.ranks, how), *_cells(told, scale))
    return shown


def _ranks_cell(ranks: int, word: str) -> str:
    return f"{ranks:>5} {word}"


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)


def _figures(row: ScalingRow) -> Iterator[tuple[str, Figures]]:
    if row.measured is not None:
        yield "measured", row.measured
    yield "predicted", row.predicted


def _cells(told: Figures, scale: float) -> list[str]:
    """The cells of a row; the speedup has the interval of the efficiency, times the ranks."""
    return [
        range_text(told.step, scale),
        rate_text(told.throughput),
        three_digits(told.speedup.value),
        percent_interval(told.efficiency),
    ]


def _plot(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """The plot's lines, one for each number of ranks; its width stands for 0 to 100 % efficiency."""
    most = max(MOST_EFFICIENCY, *(figures.efficiency.value for row in rows for _, figures in _figures(row)))
    at = _column(most)
    ruler = [" "] * (PLOT_COLUMNS + 6)
    for share in (0.0, *LINES, 1.0):
        label = f"{100 * share:.0f}%"
        ruler[at(share) : at(share) + len(label)] = label
    yield f"{'':<17}{''.join(ruler).rstrip()}"
    for row in rows:
        yield f"{printable(str(row.ranks)):>5}  predicted |{_line(row, at)}|"


def _column(most: float) -> Callable[[float], int]:
    return lambda share: max(0, min(PLOT_COLUMNS - 1, round(share / most * (PLOT_COLUMNS - 1))))


def _line(row: ScalingRow, at: Callable[[float], int]) -> str:
    drawn = [" "] * PLOT_COLUMNS
    for share in LINES:
        drawn[at(share)] = ":"
    told = row.predicted.efficiency
    low, high = at(told.low), at(told.high)
    drawn[low : high + 1] = "-" * (high - low + 1)
    drawn[low], drawn[high] = "(", ")"
    if row.measured is not None:
        drawn[at(row.measured.efficiency.value)] = "o"
    place = at(told.value)
    drawn[place] = "@" if drawn[place] == "o" else "*"
    return "".join(drawn)


def _show_changes(output: Output, changes: Changes, predicted: str) -> None:
    """Prints the changes for the largest number of ranks, the largest gain first."""
    output.show()
    output.show(f"What to change at {ranks_text(changes.ranks)}: each is the model run again", style="bold")
    shown = _plain_table()
    for head in ("change", f"throughput x\n({predicted})", f"step\n({predicted})", "helps"):
        shown.add_column(head, no_wrap=True)
    for one in changes.changes:
        what = f"{one.what}{GUESSED if one.guesses else ''}"
        shown.add_row(printable(what), range_text(one.gain), step_text(one.step), HELPS[one.verdict])
    if changes.changes:
        output.table(shown)
    for line in change_notes(changes):
        show_paragraph(output, line)
