"""H1.5B on the page: step time, throughput and efficiency over the batch."""

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.h1_5b import TABLE, BatchScaling, answers, batch_of, batch_scaling, efficiency_words
from scalewise.report.cells import count_cell, estimate_cell, mark_of
from scalewise.report.document import Block, Cell, Column, Figure, Lines, Section, Series, Table

SUITES = ("homework1",)
ORDER = 51


def build(evidence: Evidence) -> Section:
    """Table, figure, answers."""
    found = batch_scaling(evidence)
    blocks: list[Block] = [_table(found, evidence)]
    figure = _figure(found) if found is not None else None
    if figure is not None:
        blocks.append(figure)
    return Section("h1-5b", "H1.5B Batch scaling", (*blocks, *answers(evidence)))


def _table(found: BatchScaling | None, evidence: Evidence) -> Table:
    columns = (
        Column("#GPUs (ranks)"),
        Column("batch"),
        Column("time/step", "ms"),
        Column("throughput", "samples/s"),
        Column("efficiency", "%"),
    )
    rows = (*found.rows, *found.other_rows) if found else evidence.rows("batch-scaling")
    notes = (efficiency_words(found),) if found else ("batch-scaling has no usable run.",)
    return Table(
        TABLE,
        "Larger batches, ranks fixed",
        columns,
        tuple(_row(row) for row in rows),
        notes,
        tuple(row.run_names for row in rows),
    )


def _row(row: ArmRow) -> tuple[Cell, ...]:
    mark, why = mark_of(row), row.reason or row.scaling.refusal
    return (
        count_cell(row.ranks),
        count_cell(round(batch_of(row))),
        estimate_cell(row.step_seconds, 1e3, mark=mark, why_empty=why),
        estimate_cell(row.samples_per_second, mark=mark, why_empty=why or "samples were not seen"),
        estimate_cell(row.scaling.efficiency, 100, mark=mark, why_empty=why),
    )


def _figure(found: BatchScaling) -> Figure | None:
    known = [(batch_of(row), row.samples_per_second) for row in found.rows if row.samples_per_second is not None]
    points = [(batch, rate) for batch, rate in known if rate is not None]
    if len(points) < 2:
        return None
    series = [_series(f"{found.ranks} rank{'' if found.ranks == 1 else 's'}", points)]
    fit = found.saturation
    if fit is not None:
        batches = tuple(batch for batch, _ in points)
        series.append(Series("t0 + c b", batches, tuple(fit.throughput(batch) for batch in batches), style="model"))
        ceiling = (fit.limit_per_second.value,) * 2
        series.append(Series("limit", (batches[0], batches[-1]), ceiling, style="ideal"))
    ticks = tuple(batch for batch, _ in points)
    plot = Lines("global batch", "samples per second", tuple(series), log_x=True, x_ticks=ticks)
    caption = "With 95 % intervals, the fitted line and its limit." if fit else "With 95 % intervals."
    return Figure("h1-5b-throughput", "Throughput over batch", caption, plot, 0.42)


def _series(name: str, points: list[tuple[float, Estimate]]) -> Series:
    return Series(
        name,
        tuple(batch for batch, _ in points),
        tuple(rate.value for _, rate in points),
        tuple(rate.low for _, rate in points),
        tuple(rate.high for _, rate in points),
    )
