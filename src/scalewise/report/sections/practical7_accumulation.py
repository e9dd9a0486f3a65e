"""P7.1: gradient accumulation as it is, without no_sync(), and without the division of the loss."""

from typing import Any

from scalewise.explain.arms import all_reduces, asked_notes, figures_of, hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.practical7.p7_1_accumulation import answers, first_gradient
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, number_cell, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Formula, Section, Table
from scalewise.report.sections.course_pieces import MEGABYTE, anatomy_figure, loss_figure, loss_series, scaled_cell

SUITES = ("practical7",)
ORDER = 10
ARMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("as in the course", "no-sync", {"no_sync": 1}),
    ("without no_sync()", "no-sync", {"no_sync": 0}),
    ("loss divided", "division", {"divide": 1}),
    ("loss not divided", "division", {"divide": 0}),
)
FORMULA = Formula(
    "nabla 1/B sum_(i=1)^B ell_i = sum_(k=1)^A nabla (1/A dot A/B sum_(i in M_k) ell_i)",
    "gradient of the batch's mean loss = sum over A micro-batches of the gradient of (mean loss of micro-batch) / A",
)


def build(evidence: Evidence) -> Section:
    """Table, figures, answers."""
    figures = [_anatomy(evidence), _losses(evidence)]
    blocks: list[Block] = [table(evidence), *(one for one in figures if one), FORMULA, *answers(evidence)]
    return Section("p7-1", "Gradient accumulation (Code 1)", tuple(blocks))


def table(evidence: Evidence) -> Table:
    """One row an arm; what is missing is named below."""
    columns = (
        Column("Code 1", numeric=False),
        Column("Micro-batches"),
        Column("Step", "ms"),
        Column("All-reduces", "per step"),
        Column("Reduced", "MB per step"),
        Column("First gradient", "norm"),
        Column("Last loss"),
    )
    notes = [hole(evidence, name, **axes) for _, name, axes in ARMS if usable(evidence, name, **axes) is None]
    return Table(
        id="p7-1-accumulation",
        title="Accumulation with and without what it rests on; medians with 95 % intervals",
        columns=columns,
        rows=tuple(_cells(evidence, *arm) for arm in ARMS),
        notes=(
            *notes,
            *asked_notes(evidence, "no-sync", "division"),
            "Last loss: summed over the micro-batches, as backward() was called on it.",
        ),
        runs=tuple(_runs(evidence, name, axes) for _, name, axes in ARMS),
    )


def _cells(evidence: Evidence, label: str, experiment: str, axes: dict[str, Any]) -> tuple[Cell, ...]:
    row = usable(evidence, experiment, **axes)
    if row is None:
        why = hole(evidence, experiment, **axes)
        return (text_cell(label), *(empty_cell(why) for _ in range(6)))
    mark = mark_of(row)
    count, size = all_reduces(evidence, row)
    gradient = first_gradient(evidence.inspection(experiment, **axes))
    return (
        text_cell(label),
        number_cell(row.micro_batches) if row.micro_batches is None else count_cell(round(row.micro_batches)),
        estimate_cell(row.step_seconds, 1e3, mark=mark),
        Cell(f"{count:g}", count),
        scaled_cell(size, MEGABYTE),
        Cell(f"{gradient.norm:.4g}", gradient.norm) if gradient else empty_cell("gradients were not seen"),
        Cell(f"{row.last_loss:.4g}", row.last_loss) if row.last_loss is not None else empty_cell("no loss was seen"),
    )


def _runs(evidence: Evidence, experiment: str, axes: dict[str, Any]) -> tuple[str, ...]:
    row, inspected = usable(evidence, experiment, **axes), evidence.inspection(experiment, **axes)
    return (*(row.run_names if row else ()), *([inspected.run] if inspected else []))


def _anatomy(evidence: Evidence) -> Figure | None:
    arms = [(label, usable(evidence, name, **axes)) for label, name, axes in ARMS[:2]]
    return anatomy_figure(
        "p7-1-anatomy", "The step with and without no_sync()", arms, "Phases: medians, mean over ranks."
    )


def _losses(evidence: Evidence) -> Figure | None:
    divided, whole = (usable(evidence, "division", divide=value) for value in (1, 0))
    share = 1 / whole.micro_batches if whole and whole.micro_batches else 1.0
    series = [
        loss_series("divided", figures_of(evidence, divided)),
        loss_series("not divided (per micro-batch)", figures_of(evidence, whole), share),
    ]
    caption = "The undivided sum is shown over its micro-batches, so that both are the mean over a sample."
    return loss_figure("p7-1-loss", "Loss with and without the division", caption, series)
