"""H1.3 on the page: both models over ranks, and their bytes, flops and times."""

from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.balances import Balance, Case, balances, cases
from scalewise.explain.homework1.foretold import Foretelling, Foretold
from scalewise.explain.homework1.foretold_words import notes as foretold_notes
from scalewise.explain.homework1.h1_3 import RATIO_TABLE, TABLE, answers, foretellings
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, number_cell, text_cell
from scalewise.report.document import Bars, Block, Cell, Column, Figure, Part, Section, Table
from scalewise.units import three_digits

SUITES = ("homework1",)
ORDER = 30
MIB = 2**-20
BALANCE = "Balance: the batch per rank at which computing takes as long as communication."


def build(evidence: Evidence) -> Section:
    """Tables, figure, answers."""
    every, found = cases(evidence), balances(evidence)
    blocks: list[Block] = [_table(every, dict(foretellings(evidence)))]
    if found:
        blocks += [_ratios(found), _figure(found)]
    return Section("h1-3", "H1.3 Communication and computation", (*blocks, *answers(evidence)))


def _table(every: tuple[Case, ...], foretold: dict[str, Foretelling]) -> Table:
    columns = (
        Column("case", numeric=False),
        Column("#GPUs (ranks)"),
        Column("time/step", "ms"),
        Column("speedup"),
    )
    rows = [(case, row) for case in every for row in case.rows]
    shrunk = [case for case in every if case.asked]
    notes = [f"{case.name}: {case.asked} was asked and {case.used} was run; {case.rule}." for case in shrunk]
    refusals = dict.fromkeys(f"{row.ranks} ranks: {why}." for _, row in rows if (why := _why(row)))
    notes += [one.replace("..", ".") for one in refusals]
    notes += [] if rows else ["The experiment model-size was not run."]
    notes += foretold_notes(list(foretold.items()), said_before=True)
    shown: list[tuple[tuple[Cell, ...], tuple[str, ...]]] = []
    for case in every:
        shown += [(_row(case, row), row.run_names) for row in case.rows]
        shown += [(_predicted(case, row), (row.run,)) for row in foretold[case.name].rows]
    return Table(
        TABLE,
        "A small and a large model (DIM x DEPTH)",
        columns,
        tuple(cells for cells, _ in shown),
        tuple(notes),
        tuple(runs for _, runs in shown),
    )


def _why(row: ArmRow) -> str:
    return row.reason or row.scaling.refusal


def _row(case: Case, row: ArmRow) -> tuple[Cell, ...]:
    mark, why = mark_of(row), _why(row)
    return (
        _name(case),
        count_cell(row.ranks),
        estimate_cell(row.step_seconds, 1e3, mark=mark, why_empty=why),
        estimate_cell(row.scaling.speedup, mark=mark, why_empty=why),
    )


def _name(case: Case) -> Cell:
    size = f"{case.used} (asked {case.asked})" if case.asked else case.used
    return text_cell(f"{case.name} {size}".strip())


def _predicted(case: Case, row: Foretold) -> tuple[Cell, ...]:
    return (
        _name(case),
        count_cell(row.ranks),
        estimate_cell(row.step, 1e3, mark="predicted", note=row.step.method),
        estimate_cell(row.speedup, mark="predicted", why_empty="one rank was not measured", note=row.step.method),
    )


def _ratios(found: tuple[Balance, ...]) -> Table:
    columns = (
        Column("case", numeric=False),
        Column("reduced", "MiB"),
        Column("computed", "GFLOP"),
        Column("bytes per kflop"),
        Column("communication", "ms"),
        Column("computing", "ms"),
        Column("balance", "samples per rank"),
    )
    ranks = {one.row.ranks for one in found}
    per = f"{found[0].samples_per_rank:g} samples per rank"
    note = f"Per rank and step on {'/'.join(map(str, sorted(ranks)))} ranks, {per}; flops: 6 per weight and sample."
    return Table(
        RATIO_TABLE,
        "Bytes, flops and what they take",
        columns,
        tuple(_ratio(one) for one in found),
        (note, BALANCE),
        tuple(one.row.run_names for one in found),
    )


def _ratio(one: Balance) -> tuple[Cell, ...]:
    missing = "not measured without communication"
    return (
        text_cell(one.case.name),
        number_cell(one.bytes, MIB),
        number_cell(one.flops, 1e-9),
        number_cell(one.bytes / one.flops, 1e3),
        estimate_cell(one.communication, 1e3, why_empty=missing),
        estimate_cell(one.computing, 1e3, why_empty=missing),
        _batch(one),
    )


def _batch(one: Balance) -> Cell:
    if one.batch is None:
        return empty_cell("computing time over the batch could not be told", "measured")
    if one.batch.high <= 0:
        return text_cell("none", note="the overhead alone takes longer than communication")
    if one.batch.low <= 0:
        return text_cell(f"below {three_digits(one.batch.high)}", mark="predicted", note="down to none")
    return estimate_cell(one.batch, mark="predicted")


def _figure(found: tuple[Balance, ...]) -> Figure:
    known = [one for one in found if one.computing is not None and one.communication is not None]
    whole = [1.0 for _ in known]
    shares = [_share(one) for one in known]
    parts = (
        Part("computing", tuple(100 * (a - b) for a, b in zip(whole, shares, strict=True))),
        Part("communication", tuple(100 * b for b in shares)),
    )
    bars = tuple(f"{one.case.name}, {one.row.ranks} ranks" for one in known)
    caption = "Computing: the step without communication. Communication: the rest, by removal."
    return Figure("h1-3-shares", "Where the step goes", caption, Bars(bars, parts, "share of the step (%)"), 0.42)


def _share(one: Balance) -> float:
    """Communication over the step; a price that came out negative draws as nothing."""
    if one.communication is None or one.row.step_seconds is None:
        return 0.0
    return min(1.0, max(0.0, one.communication.value / one.row.step_seconds.value))
