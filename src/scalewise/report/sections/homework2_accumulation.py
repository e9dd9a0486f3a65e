"""H2.2b: Codes 1 and 3 with more and smaller micro-batches."""

from scalewise.explain.arms import asked_notes
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import NAMES
from scalewise.explain.homework2.h2_2_accumulation import (
    CODES,
    EXPERIMENT,
    Point,
    accum_values,
    points,
    slope_sentence,
)
from scalewise.explain.memory import parts_of, peak_of
from scalewise.report.cells import count_cell, empty_cell, mark_of, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Lines, Section, Series, Table
from scalewise.report.sections.course_pieces import GIGABYTE, memory_figure, scaled_cell, seconds_cell

SUITES = ("homework2",)
ORDER = 20


def build(evidence: Evidence) -> Section:
    """Table, time over ACCUM_STEPS, memory by part."""
    values = accum_values(evidence)
    bars = [
        (f"{NAMES[code]}, {accum}", parts_of(evidence, EXPERIMENT, code=code, accum=accum))
        for code in CODES
        for accum in (values[0], values[-1])
    ]
    figures = [_times(evidence), memory_figure("h2-2b-memory", "Memory of a step by purpose", bars)]
    blocks: list[Block] = [table(evidence), *(one for one in figures if one)]
    return Section("h2-accumulation", "ACCUM_STEPS", tuple(blocks))


def table(evidence: Evidence) -> Table:
    """Code, ACCUM_STEPS, time, memory, observations."""
    found = points(evidence)
    slopes = [slope_sentence(evidence, code) for code in CODES]
    return Table(
        id="h2-2b-accumulation",
        title="More micro-batches at the same global batch; medians with 95 % intervals",
        columns=(
            Column("Code", numeric=False),
            Column("ACCUM_STEPS"),
            Column("Time", "s per step"),
            Column("Memory", "GB"),
            Column("Observations", numeric=False),
        ),
        rows=tuple(_cells(evidence, point) for point in found),
        notes=(*(text for text in slopes if text), *asked_notes(evidence, EXPERIMENT)),
        runs=tuple(point.row.run_names if point.row else () for point in found),
    )


def _cells(evidence: Evidence, point: Point) -> tuple[Cell, ...]:
    names = (text_cell(NAMES[point.code]), count_cell(point.accum_steps))
    if point.row is None:
        return (*names, empty_cell(point.missing), empty_cell(point.missing), text_cell(point.missing, mark="missing"))
    peak = peak_of(evidence, EXPERIMENT, code=point.code, accum=point.accum_steps)
    return (
        *names,
        seconds_cell(point.row.step_seconds, mark_of(point.row)),
        scaled_cell(peak.bytes if peak else None, GIGABYTE, note=peak.witness if peak else ""),
        text_cell(point.observation),
    )


def _times(evidence: Evidence) -> Figure | None:
    series: list[Series] = []
    for code in CODES:
        known = [(one.accum_steps, one.row.step_seconds) for one in points(evidence) if one.row and one.code == code]
        times = [(float(accum), time) for accum, time in known if time]
        if times:
            series.append(
                Series(
                    NAMES[code],
                    tuple(accum for accum, _ in times),
                    tuple(time.value * 1e3 for _, time in times),
                    tuple(time.low * 1e3 for _, time in times),
                    tuple(time.high * 1e3 for _, time in times),
                )
            )
    if not series:
        return None
    ticks = tuple(float(value) for value in accum_values(evidence))
    plot = Lines("ACCUM_STEPS", "time per step (ms)", tuple(series), x_ticks=ticks)
    return Figure("h2-2b-time", "Step time over ACCUM_STEPS", "Bars are 95 % intervals.", plot)
