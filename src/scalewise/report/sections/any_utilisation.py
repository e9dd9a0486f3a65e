"""Shows how well an experiment's arms use their devices: shares in a table, time by kernel family as bars."""

from collections.abc import Iterator, Sequence

from scalewise.analysis.summary import ExperimentAnalysis
from scalewise.analysis.utilisation import Share, Utilisation
from scalewise.records.inspection import FAMILIES, HOST
from scalewise.report.cells import empty_cell, estimate_cell, number_cell, text_cell
from scalewise.report.document import BarPlot, Block, Cell, Column, Figure, Part, Table

MOST_BARS = 8
MOST_FAMILIES = 6  # more colours cannot be told apart
REST = "rest"
GIGA, TERA = 1e9, 1e12


def use_blocks(experiment: ExperimentAnalysis) -> list[Block]:
    """Returns the table and the figure; nothing if no arm was inspected."""
    rows = experiment.utilisation
    if not rows:
        return []
    return [_table(experiment.name, rows), *_figure(experiment.name, [row for row in rows if row.families])]


def _table(name: str, rows: Sequence[Utilisation]) -> Table:
    columns = (
        Column("arm", numeric=False),
        Column("work of a step", "Gflop"),
        Column("achieved", "Tflop/s"),
        Column("measured peak", "Tflop/s"),
        Column("MFU", "%"),
        Column("device busy", "%"),
        Column("bandwidth, at least", "%"),
    )
    return Table(
        id=f"{name}-utilisation",
        title="Use of the device, of a rank",
        columns=columns,
        rows=tuple(_cells(row) for row in rows),
        notes=tuple(_notes(rows)),
        runs=tuple((row.run,) for row in rows),
    )


def _cells(row: Utilisation) -> tuple[Cell, ...]:
    counted = "counted operator by operator, by " + (row.flops_by or "nothing")
    return (
        text_cell(row.arm),
        number_cell(row.flops_per_step, 1 / GIGA, why_empty=row.mfu.reason, note=counted),
        number_cell(row.achieved_flops_per_second, 1 / TERA, why_empty=row.mfu.reason),
        number_cell(row.peak_flops_per_second, 1 / TERA, why_empty=row.mfu.reason),
        *(_share_cell(share) for share in (row.mfu, row.busy, row.bandwidth)),
    )


def _share_cell(share: Share) -> Cell:
    if share.value is None:
        return empty_cell(share.reason)
    if share.interval is None:
        return number_cell(share.value, 100, note=share.method)
    return estimate_cell(share.interval, 100, note=share.method)


def _notes(rows: Sequence[Utilisation]) -> Iterator[str]:
    yield (
        "MFU: operations that the model needs, counted in one inspected step, over the time of the timed steps and the "
        "rate at which this device was measured to multiply matrices in the same precision."
    )
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, share in (("MFU", row.mfu), ("busy share", row.busy), ("bandwidth", row.bandwidth)):
            if share.value is None and share.reason:
                reasons.setdefault(share.reason, []).append(f"{name} of {row.arm}")
    for reason, what in reasons.items():
        yield f"No {', '.join(what)}: {reason}."


def _figure(name: str, rows: Sequence[Utilisation]) -> Iterator[Figure]:
    shown = rows[:MOST_BARS]
    if not shown:
        return
    by_row = [{one.family: 100 * one.share for one in row.families} for row in shown]
    totals = {family: sum(shares.get(family, 0.0) for shares in by_row) for family in (*FAMILIES, HOST)}
    largest = sorted(totals, key=lambda family: -totals[family])[:MOST_FAMILIES]
    parts = [
        Part(family, tuple(shares.get(family, 0.0) for shares in by_row))
        for family in totals
        if family in largest and totals[family]
    ]
    rest = tuple(sum(share for family, share in shares.items() if family not in largest) for shares in by_row)
    parts += [Part(REST, rest)] if any(share >= 1 for share in rest) else []
    plot = BarPlot(tuple(row.arm for row in shown), tuple(parts), "% of the profiled step")
    what = "kernels on the device" if shown[0].families_of == "kernels" else "operators in the main thread"
    caption = f"Time of one profiled step by {what}; {REST}: families with less time than these."
    yield Figure(f"{name}-families", "Time by kernel family", caption, plot)
