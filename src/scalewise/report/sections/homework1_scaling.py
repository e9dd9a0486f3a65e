"""H1.2 on the page: the strong-scaling table, the model of a step beside it, speedup and anatomy."""

from collections.abc import Sequence
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.step_model import StepParts
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.foretold import Foretold
from scalewise.explain.homework1.foretold_words import notes as foretold_notes
from scalewise.explain.homework1.h1_2 import MODEL_TABLE, TABLE, StrongScaling, link_words, strong_scaling
from scalewise.explain.homework1.h1_2 import answers as answers_of
from scalewise.explain.homework1.pieces import scales
from scalewise.report.cells import count_cell, estimate_cell, mark_of, number_cell
from scalewise.report.document import Bars, Block, Cell, Column, Figure, Formula, Lines, Part, Section, Series, Table

SUITES = ("homework1",)
ORDER = 20
MODEL = Formula(
    typst='T(N) = underbrace(t_0, "overhead") + underbrace(c dot B / N, "computing") + '
    'underbrace(n alpha + V / beta, "communication") + epsilon',
    plain="T(N) = t0 (overhead) + c B/N (computing) + n alpha + V/beta (communication) + residual",
)
ANATOMY = "Bars: the model, and what it leaves unexplained. Lines: 95 % interval of the measured step."


def build(evidence: Evidence) -> Section:
    """Tables, formula, figures, answers."""
    found = strong_scaling(evidence)
    blocks: list[Block] = [_table(found)]
    if found.parts:
        blocks += [MODEL, _model_table(found, evidence)]
    blocks += [figure for figure in (_speedup(found), _anatomy(found)) if figure is not None]
    return Section("h1-2", "H1.2 Strong scaling", (*blocks, *answers_of(evidence)))


def _table(found: StrongScaling) -> Table:
    columns = (Column("#GPUs (ranks)"), Column("time/step", "ms"), Column("speedup"), Column("efficiency", "%"))
    notes = ["Serial fraction: Karp and Flatt."] if found.speedups else []
    if not found.rows:
        notes.append("The experiment strong-scaling was not run.")
    notes += [f"{row.ranks} ranks: {row.reason or row.scaling.refusal}." for row in found.rows if _hole(row)]
    predicted = found.foretold.rows
    return Table(
        TABLE,
        "Strong scaling, global batch fixed",
        (*columns, Column("serial fraction")),
        (*(_row(row) for row in found.rows), *(_predicted(row) for row in predicted)),
        (*(note.replace("..", ".") for note in notes), *foretold_notes([("", found.foretold)])),
        (*(row.run_names for row in found.rows), *((row.run,) for row in predicted)),
    )


def _hole(row: ArmRow) -> str:
    return row.reason or row.scaling.refusal


def _row(row: ArmRow) -> tuple[Cell, ...]:
    mark, why = mark_of(row), _hole(row)
    scaling = row.scaling
    base = scaling.speedup is not None and row.ranks == 1
    return (
        count_cell(row.ranks),
        estimate_cell(row.step_seconds, 1e3, mark=mark, why_empty=why),
        estimate_cell(scaling.speedup, mark=mark, why_empty=why),
        estimate_cell(scaling.efficiency, 100, mark=mark, why_empty=why),
        estimate_cell(scaling.serial_fraction, mark=mark, why_empty="one rank is the base" if base else why),
    )


def _predicted(row: Foretold) -> tuple[Cell, ...]:
    why = "one rank was not measured"
    return (
        count_cell(row.ranks),
        estimate_cell(row.step, 1e3, mark="predicted", note=row.step.method),
        estimate_cell(row.speedup, mark="predicted", why_empty=why, note=row.step.method),
        estimate_cell(row.efficiency, 100, mark="predicted", why_empty=why, note=row.step.method),
        estimate_cell(row.serial_fraction, mark="predicted", why_empty=why, note=row.step.method),
    )


def _model_table(found: StrongScaling, evidence: Evidence) -> Table:
    columns = (
        Column("ranks"),
        Column("measured", "ms"),
        Column("overhead", "ms"),
        Column("computing", "ms"),
        Column("communication", "ms"),
        Column("residual", "ms"),
        Column("residual", "%"),
        Column("price by removal", "ms"),
    )
    return Table(
        MODEL_TABLE,
        "The model's parts against the measured step",
        columns,
        tuple(_parts(part) for part in found.parts),
        (f"Link, {link_words(evidence)}.",),
        tuple(_names(found, part.ranks) for part in found.parts),
    )


def _names(found: StrongScaling, ranks: int) -> tuple[str, ...]:
    return next((row.run_names for row in found.rows if row.ranks == ranks), ())


def _parts(part: StepParts) -> tuple[Cell, ...]:
    return (
        count_cell(part.ranks),
        estimate_cell(part.measured_seconds, 1e3),
        number_cell(part.overhead_seconds, 1e3),
        number_cell(part.compute_seconds, 1e3),
        number_cell(part.communication_seconds, 1e3),
        number_cell(part.residual_seconds, 1e3),
        number_cell(part.relative_residual, 100),
        estimate_cell(part.communication_measured, 1e3, why_empty="one rank has nobody to talk to"),
    )


def _speedup(found: StrongScaling) -> Figure | None:
    rows = [row for row in found.rows if scales(row) and row.scaling.speedup is not None]
    foretold = [(row.ranks, row.speedup) for row in found.foretold.rows if row.speedup is not None]
    if not rows or len(rows) + len(foretold) < 2:
        return None
    known = [(row.ranks, row.scaling.speedup) for row in rows if row.scaling.speedup is not None]
    ranks = tuple(sorted({float(count) for count, _ in [*known, *foretold]}))
    series = [Series("ideal", ranks, ranks, style="ideal"), _series("measured", known)]
    if foretold:
        series.append(_series("predicted", foretold, "predicted"))
    base = next((part for part in found.parts if part.ranks == 1), None)
    if base is not None and len(found.parts) > 1:
        modelled = tuple(base.model_seconds / part.model_seconds for part in found.parts)
        series.append(Series("model", tuple(float(part.ranks) for part in found.parts), modelled, style="model"))
    plot = Lines("ranks", "speedup", tuple(series), x_ticks=ranks)
    caption = f"Over one rank, with 95 % intervals{'; predicted ones of 90 %' if foretold else ''}."
    return Figure("h1-2-speedup", "Speedup", caption, plot, 0.5)


def _series(
    name: str, points: Sequence[tuple[int, Estimate]], style: Literal["measured", "predicted"] = "measured"
) -> Series:
    return Series(
        name,
        tuple(float(ranks) for ranks, _ in points),
        tuple(one.value for _, one in points),
        tuple(one.low for _, one in points),
        tuple(one.high for _, one in points),
        style,
    )


def _anatomy(found: StrongScaling) -> Figure | None:
    if not found.parts:
        return None
    parts: tuple[Part, ...] = (
        Part("overhead", tuple(1e3 * part.overhead_seconds for part in found.parts)),
        Part("computing", tuple(1e3 * part.compute_seconds for part in found.parts)),
        Part("communication", tuple(1e3 * part.communication_seconds for part in found.parts)),
    )
    missing = tuple(1e3 * max(0.0, part.residual_seconds) for part in found.parts)
    if any(missing):
        parts = (*parts, Part("not explained", missing))
    bars = tuple(f"{part.ranks} rank{'' if part.ranks == 1 else 's'}" for part in found.parts)
    measured = [part.measured_seconds for part in found.parts]
    plot = Bars(
        bars,
        parts,
        "step time (ms)",
        tuple(1e3 * one.low for one in measured),
        tuple(1e3 * one.high for one in measured),
    )
    return Figure("h1-2-anatomy", "Anatomy of a step", ANATOMY, plot, 0.5)
