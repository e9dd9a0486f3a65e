"""H2.1 and H2.2a: the three codes side by side, and their loss curves."""

from scalewise.analysis.stability import LATE_SKIPS, TOLERATED_ROUNDINGS, tolerance_of
from scalewise.explain.arms import asked_notes, figures_of, hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION, CODES, MEANS, NAMES, code_row, code_stability
from scalewise.explain.homework2.h2_1_same_loss import answers
from scalewise.explain.memory import peak_of
from scalewise.explain.words import percent_text
from scalewise.report.cells import empty_cell, mark_of, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Section, Series, Table
from scalewise.report.sections.course_pieces import (
    GIGABYTE,
    distance_series,
    level_series,
    loss_figure,
    loss_series,
    scaled_cell,
    seconds_cell,
    stability_cell,
)

SUITES = ("homework2",)
ORDER = 10


def build(evidence: Evidence) -> Section:
    """Table, curves, answer."""
    figures = [_curves(evidence), _distances(evidence)]
    blocks: list[Block] = [table(evidence), *(one for one in figures if one), *answers(evidence)]
    return Section("h2-codes", "Codes 1, 2 and 3", tuple(blocks))


def table(evidence: Evidence) -> Table:
    """Code, time, memory, stability."""
    columns = (
        Column("Code", numeric=False),
        Column("Time", "s per step"),
        Column("Memory", "GB"),
        Column("Stability", numeric=False),
    )
    peaks = [peak for code in CODES if (peak := peak_of(evidence, "codes", code=code))]
    witness = [f"Memory: {peaks[0].witness}; GB = 10^9 bytes."] if peaks else []
    missing = [hole(evidence, "codes", code=code) for code in CODES if code_row(evidence, code) is None]
    return Table(
        id="h2-2a-codes",
        title="Time, memory and stability; medians with 95 % intervals",
        columns=columns,
        rows=tuple(_cells(evidence, code) for code in CODES),
        notes=(*missing, *asked_notes(evidence, "codes"), *witness, _rule()),
        runs=tuple(row.run_names if (row := code_row(evidence, code)) else () for code in CODES),
    )


def _rule() -> str:
    return (
        f"Stable: every loss finite, at most {LATE_SKIPS:.0%} of the steps skipped once the scale has settled, and the "
        f"loss within {TOLERATED_ROUNDINGS} roundings of fp32, which is Code 1 on the same batch."
    )


def _cells(evidence: Evidence, code: str) -> tuple[Cell, ...]:
    label = f"{NAMES[code]}: {MEANS[code]}"
    row = code_row(evidence, code)
    if row is None:
        why = hole(evidence, "codes", code=code)
        return (text_cell(label), *(empty_cell(why) for _ in range(3)))
    peak = peak_of(evidence, "codes", code=code)
    return (
        text_cell(label),
        seconds_cell(row.step_seconds, mark_of(row)),
        scaled_cell(peak.bytes if peak else None, GIGABYTE, note=peak.witness if peak else ""),
        stability_cell(code_stability(evidence, code)),
    )


def _curves(evidence: Evidence) -> Figure | None:
    series = [loss_series(NAMES[code], figures_of(evidence, code_row(evidence, code))) for code in CODES]
    return loss_figure("h2-loss-curves", "Loss over optimizer steps", "The same batch and seed for all codes.", series)


def _distances(evidence: Evidence) -> Figure | None:
    """How far the curves lie from Code 1's: on the plain plot they cover each other."""
    one = figures_of(evidence, code_row(evidence, ACCUMULATION))
    series: list[Series] = []
    tolerances = []
    for code in CODES[1:]:
        own = figures_of(evidence, code_row(evidence, code))
        found = distance_series(NAMES[code], own, one)
        if found:
            series.append(found)
            tolerances.append(tolerance_of(own[0].precision))
    if not series:
        return None
    limit = max(tolerances)
    lines = [*series, level_series(f"tolerance {percent_text(limit)}", limit, series)]
    caption = "Relative to Code 1 (float32); the tolerance is eight roundings of the coarser type."
    title = "Distance of the loss from float32"
    return loss_figure("h2-loss-distance", title, caption, lines, log_y=True, y_label="relative distance")
