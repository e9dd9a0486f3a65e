"""H1.1 on the page: step times with the warm-up visible, and pairs of runs with and without a seed."""

from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.h1_1 import (
    COURSE_IGNORES,
    SeedPair,
    WarmUpFigures,
    answers,
    seed_pairs,
    trace_words,
    warm_up,
)
from scalewise.report.cells import count_cell, number_cell, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Lines, Section, Series, Span, Table

SUITES = ("homework1",)
ORDER = 10


def build(evidence: Evidence) -> Section:
    """Figure, table, answers."""
    found = warm_up(evidence)
    blocks: list[Block] = [_seeds(seed_pairs(evidence))]
    if found is not None:
        blocks.append(_trace(found))
    return Section("h1-1", "H1.1 A reproducible set-up", (*blocks, *answers(evidence)))


def _trace(found: WarmUpFigures) -> Figure:
    times = tuple(1e3 * one for one in found.shown.step_seconds)
    name = f"{found.ranks} rank{'' if found.ranks == 1 else 's'}"
    series = Series(name, tuple(float(step) for step in range(len(times))), times)
    span = Span(-0.5, COURSE_IGNORES - 0.5, f"first {COURSE_IGNORES}, left out by the course")
    plot = Lines("step", "step time (ms)", (series,), (span,), log_y=max(times) > 5 * min(times))
    return Figure("h1-1-trace", "Step times of one run", trace_words(found), plot, 0.42)


def _seeds(pairs: tuple[SeedPair, ...]) -> Table:
    columns = (
        Column("seed", numeric=False),
        Column("losses compared"),
        Column("equal bit for bit"),
        Column("first difference", "step"),
        Column("largest difference", "%"),
    )
    notes = () if pairs else ("The experiment seeds has no pair of finished runs.",)
    return Table(
        "h1-1-seeds",
        "Two runs each, loss by loss",
        columns,
        tuple(_pair(one) for one in pairs),
        notes,
        tuple(one.runs for one in pairs),
    )


def _pair(one: SeedPair) -> tuple[Cell, ...]:
    return (
        text_cell("not fixed" if one.seed == "none" else one.seed),
        count_cell(one.steps),
        count_cell(one.equal),
        text_cell("none") if one.first_difference is None else count_cell(one.first_difference),
        number_cell(one.largest_relative, 100),
    )
