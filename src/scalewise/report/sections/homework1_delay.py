"""H1.5A on the page: step time and speedup with and without a delay, and Amdahl's curve."""

from scalewise.analysis.laws import amdahl_speedup
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.h1_5a import TABLE, Delay, DelayRow, answers, delay
from scalewise.explain.homework1.pieces import scales
from scalewise.report.cells import count_cell, estimate_cell, mark_of
from scalewise.report.document import Block, Cell, Column, Figure, Lines, Section, Series, Table

SUITES = ("homework1",)
ORDER = 50
NO_CURVE = "Measured, and predicted by adding the delay to both steps; a serial fraction above 1 has no Amdahl curve."
PREDICTED = "Predicted from one rank, with nothing serial but the delay; the ideal up to 2 ranks."
TICKS = tuple(float(2**power) for power in range(5))
CURVE = tuple(2 ** (power / 4) for power in range(17))  # 1 to 16 ranks


def build(evidence: Evidence) -> Section:
    """Table, curve, answers."""
    found = delay(evidence)
    blocks: list[Block] = [_table(found)]
    figure = _figure(found) if found is not None else None
    if figure is not None:
        blocks.append(figure)
    return Section("h1-5a", "H1.5A A delay before backward", (*blocks, *answers(evidence)))


def _table(found: Delay | None) -> Table:
    columns = (
        Column("#GPUs (ranks)"),
        Column("step without", "ms"),
        Column("step with", "ms"),
        Column("speedup without"),
        Column("speedup with"),
        Column("predicted with"),
    )
    rows = found.rows if found else ()
    notes = ["Predicted: Amdahl's law, the measured delay of one rank added to the serial part."] if rows else []
    notes += [] if rows else ["The experiment delay has no runs with and without a delay."]
    marks = dict.fromkeys(
        f"{row.ranks} ranks: {row.plain.scaling.refusal}." for row in rows if row.plain and row.plain.scaling.refusal
    )
    title = f"A delay of {found.asked_seconds * 1e3:g} ms on every rank" if found else "A delay on every rank"
    return Table(
        TABLE,
        title,
        columns,
        tuple(_row(row) for row in rows),
        (*notes, *marks),
        tuple((*_names(row.plain), *_names(row.delayed)) for row in rows),
    )


def _names(row: ArmRow | None) -> tuple[str, ...]:
    return row.run_names if row else ()


def _row(row: DelayRow) -> tuple[Cell, ...]:
    def step(arm: ArmRow | None) -> Cell:
        why = arm.reason if arm else "not run"
        return estimate_cell(arm.step_seconds if arm else None, 1e3, mark=mark_of(arm), why_empty=why)

    def speedup(arm: ArmRow | None) -> Cell:
        why = arm.reason or arm.scaling.refusal if arm else "not run"
        return estimate_cell(arm.scaling.speedup if arm else None, mark=mark_of(arm), why_empty=why)

    why = "one rank is the base" if row.ranks == 1 else "no real scaling to predict from"
    mark = "predicted" if row.predicted else mark_of(row.plain)
    predicted = estimate_cell(row.predicted, mark=mark, why_empty=why)
    return (
        count_cell(row.ranks),
        step(row.plain),
        step(row.delayed),
        speedup(row.plain),
        speedup(row.delayed),
        predicted,
    )


def _points(name: str, rows: list[ArmRow | None]) -> Series | None:
    known = [row for row in rows if row is not None and scales(row)]
    pairs = [(row.ranks, row.scaling.speedup) for row in known if row.scaling.speedup is not None]
    found = [(ranks, speedup) for ranks, speedup in pairs if speedup is not None]
    if len(found) < 2:
        return None
    return Series(
        name,
        tuple(float(ranks) for ranks, _ in found),
        tuple(speedup.value for _, speedup in found),
        tuple(speedup.low for _, speedup in found),
        tuple(speedup.high for _, speedup in found),
    )


def _bound(found: Delay) -> Figure | None:
    """From one rank alone: the law with nothing serial but the delay, so more than any ranks could reach."""
    base = next((row.plain for row in found.rows if row.ranks == 1 and row.plain and scales(row.plain)), None)
    delay_seconds = found.serial_seconds
    if base is None or base.step_seconds is None or delay_seconds is None or delay_seconds.low <= 0:
        return None
    fraction = delay_seconds.value / (base.step_seconds.value + delay_seconds.value)
    bound = Series("bound, delay", CURVE, tuple(amdahl_speedup(fraction, ranks) for ranks in CURVE), style="model")
    ideal = tuple(one for one in CURVE if one <= 2)
    plot = Lines("ranks", "speedup", (Series("ideal", ideal, ideal, style="ideal"), bound), log_x=True, x_ticks=TICKS)
    return Figure("h1-5a-amdahl", "Amdahl's law with the delay", PREDICTED, plot, 0.42)


def _figure(found: Delay) -> Figure | None:
    measured = [
        _points("measured, no delay", [row.plain for row in found.rows]),
        _points("measured, delay", [row.delayed for row in found.rows]),
    ]
    series = [one for one in measured if one is not None]
    if not series:
        return _bound(found)
    fractions = {"Amdahl, delay": found.serial_fraction.value if found.serial_fraction else None}
    last = next((row.plain for row in reversed(found.rows) if row.plain and row.plain.scaling.serial_fraction), None)
    if last is not None and last.scaling.serial_fraction is not None:
        fractions["Amdahl, no delay"] = last.scaling.serial_fraction.value
    curves: list[Series] = []
    for name, fraction in fractions.items():
        if fraction is not None and 0 <= fraction <= 1:  # elsewhere the law has no curve
            curve = tuple(amdahl_speedup(fraction, ranks) for ranks in CURVE)
            curves.append(Series(name, CURVE, curve, style="model"))
    foretold = [(row.ranks, row.predicted.value) for row in found.rows if row.predicted is not None]
    points = Series(
        "predicted, delay",
        (1.0, *(float(one) for one, _ in foretold)),
        (1.0, *(one for _, one in foretold)),
        style="model",
    )
    drawn = (*series, *curves) if curves else (*series, points)
    last_rank = CURVE[-1] if curves else max(points.x)
    ticks = tuple(tick for tick in TICKS if tick <= last_rank)
    plot = Lines("ranks", "speedup", drawn, log_x=True, x_ticks=ticks)
    caption = "Points measured; curves by Amdahl's law, beyond the points predictions." if curves else NO_CURVE
    return Figure("h1-5a-amdahl", "Amdahl's law with and without the delay", caption, plot, 0.5)
