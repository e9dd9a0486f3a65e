"""H1.5C on the page: step time and waiting time of every rank beside a slow one."""

from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.h1_5c import TABLE, Imbalance, RankWait, answers, imbalance
from scalewise.report.cells import count_cell, estimate_cell
from scalewise.report.document import Bars, Block, Cell, Column, Figure, Part, Section, Table

SUITES = ("homework1",)
ORDER = 52


def build(evidence: Evidence) -> Section:
    """Table, figure, answers."""
    found = imbalance(evidence)
    blocks: list[Block] = [_table(found)]
    if found is not None:
        blocks.append(_figure(found))
    return Section("h1-5c", "H1.5C One slow rank", (*blocks, *answers(evidence)))


def _table(found: Imbalance | None) -> Table:
    columns = (
        Column("rank"),
        Column("step, even", "ms"),
        Column("step, uneven", "ms"),
        Column("own delay", "ms"),
        Column("waiting", "ms"),
    )
    notes = (
        ("Own delay: growth of the step outside backward. Waiting: growth of backward, where DDP meets the others.",)
        if found
        else ("imbalance has no usable runs with and without a delay on several ranks.",)
    )
    title = f"Rank 0 is {found.asked_seconds * 1e3:g} ms late" if found else "One slow rank"
    rows = found.ranks if found else ()
    names = (*found.even.run_names, *found.uneven.run_names) if found else ()
    return Table(TABLE, title, columns, tuple(_row(one) for one in rows), notes, tuple(names for _ in rows))


def _row(one: RankWait) -> tuple[Cell, ...]:
    return (
        count_cell(one.rank),
        estimate_cell(one.before_seconds, 1e3),
        estimate_cell(one.after_seconds, 1e3),
        estimate_cell(one.own_seconds, 1e3),
        estimate_cell(one.waiting_seconds, 1e3),
    )


def _figure(found: Imbalance) -> Figure:
    def milliseconds(name: str, values: list[float]) -> Part:
        return Part(name, tuple(1e3 * max(0.0, value) for value in values))

    parts = (
        milliseconds("step as before", [one.before_seconds.value for one in found.ranks]),
        milliseconds("own delay", [one.own_seconds.value for one in found.ranks]),
        milliseconds("waiting", [one.waiting_seconds.value for one in found.ranks]),
    )
    bars = tuple(f"rank {one.rank}" for one in found.ranks)
    caption = "Each rank's uneven step: what it was before, its own delay, and waiting for the slow rank."
    return Figure("h1-5c-waiting", "Who waits", caption, Bars(bars, parts, "step time (ms)"), 0.45)
