"""H1.5C on the page: step time and waiting time of every rank beside a slow one."""

from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.h1_5c import TABLE, Imbalance, RankWait, answers, imbalance
from scalewise.report.cells import count_cell, estimate_cell, mark_of
from scalewise.report.document import Bars, Block, Cell, Column, Figure, Mark, Part, Section, Table

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
        Column("waiting, even", "ms"),
        Column("waiting, uneven", "ms"),
    )
    notes = (
        ("Own delay: growth of the step outside backward. Waiting: backward less the shortest backward of all ranks.",)
        if found
        else ("imbalance has no usable runs with and without a delay on several ranks.",)
    )
    title = f"Rank 0 is {found.asked_seconds * 1e3:g} ms late" if found else "One slow rank"
    ranks = found.ranks if found else ()
    names = (*found.even.run_names, *found.uneven.run_names) if found else ()
    rows = tuple(_row(one, mark_of(found.uneven if found else None)) for one in ranks)
    return Table(TABLE, title, columns, rows, notes, tuple(names for _ in ranks))


def _row(one: RankWait, mark: Mark) -> tuple[Cell, ...]:
    return (
        count_cell(one.rank),
        estimate_cell(one.before_seconds, 1e3, mark=mark),
        estimate_cell(one.after_seconds, 1e3, mark=mark),
        estimate_cell(one.own_seconds, 1e3, mark=mark),
        estimate_cell(one.waiting_before, 1e3, mark=mark),
        estimate_cell(one.waiting_seconds, 1e3, mark=mark),
    )


def _figure(found: Imbalance) -> Figure:
    """The uneven step of every rank; the parts add up to it."""

    def milliseconds(name: str, values: list[float]) -> Part:
        return Part(name, tuple(1e3 * max(0.0, value) for value in values))

    ranks = found.ranks
    own = [one.own_seconds.value for one in ranks]
    waiting = [one.waiting_seconds.value for one in ranks]
    outside = [one.after_seconds.value - one.backward_seconds.value for one in ranks]
    parts = (
        milliseconds("forward, update", [a - max(0.0, b) for a, b in zip(outside, own, strict=True)]),
        milliseconds("own delay", own),
        milliseconds("backward", [one.backward_seconds.value - b for one, b in zip(ranks, waiting, strict=True)]),
        milliseconds("waiting in it", waiting),
    )
    bars = tuple(f"rank {one.rank}" for one in ranks)
    caption = "Each rank's uneven step, with its own delay and its waiting for the slow rank."
    marks = tuple(mark_of(found.uneven) for _ in ranks)
    return Figure("h1-5c-waiting", "Who waits", caption, Bars(bars, parts, "step time (ms)", marks=marks), 0.45)
