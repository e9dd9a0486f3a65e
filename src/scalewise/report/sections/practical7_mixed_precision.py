"""P7.3: three precisions beside each other, and float16 with and without GradScaler beside float32."""

from scalewise.analysis.stability import stability
from scalewise.explain.arms import asked_notes, figures_of, hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.memory import parts_of, peak_of
from scalewise.explain.practical7.p7_3_mixed_precision import answers, scaler_stability
from scalewise.explain.words import percent_text
from scalewise.report.cells import empty_cell, estimate_cell, mark_of, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Section, Table
from scalewise.report.sections.course_pieces import MEGABYTE, loss_figure, loss_series, memory_figure, scaled_cell

SUITES = ("practical7",)
ORDER = 20
PRECISIONS = ("float32", "bfloat16", "float16")


def build(evidence: Evidence) -> Section:
    """Two tables, two figures, answers."""
    memory = memory_figure(
        "p7-3-memory",
        "Memory of a step by purpose",
        [(name, parts_of(evidence, "amp", precision=name)) for name in PRECISIONS],
    )
    figures = [one for one in (memory, _losses(evidence)) if one]
    mixed, *scaler = answers(evidence)
    blocks: list[Block] = [precision_table(evidence), mixed, *figures, scaler_table(evidence), *scaler]
    return Section("p7-3", "Mixed precision (Code 2)", tuple(blocks))


def precision_table(evidence: Evidence) -> Table:
    """Time and memory of each precision."""
    columns = (
        Column("Precision", numeric=False),
        Column("Step", "ms"),
        Column("Forward", "ms"),
        Column("Backward", "ms"),
        Column("Optimizer", "ms"),
        Column("Memory", "MB"),
        Column("Skipped steps"),
    )
    missing = [
        hole(evidence, "amp", precision=name) for name in PRECISIONS if not usable(evidence, "amp", precision=name)
    ]
    peaks = [peak for name in PRECISIONS if (peak := peak_of(evidence, "amp", precision=name))]
    witness = [f"Memory: {peaks[0].witness}."] if peaks else []
    return Table(
        id="p7-3-amp",
        title="Code 2 in three precisions; medians with 95 % intervals",
        columns=columns,
        rows=tuple(_precision_cells(evidence, name) for name in PRECISIONS),
        notes=(*missing, *asked_notes(evidence, "amp"), *witness),
        runs=tuple(row.run_names if (row := usable(evidence, "amp", precision=n)) else () for n in PRECISIONS),
    )


def _precision_cells(evidence: Evidence, name: str) -> tuple[Cell, ...]:
    row = usable(evidence, "amp", precision=name)
    if row is None:
        why = hole(evidence, "amp", precision=name)
        return (text_cell(name), *(empty_cell(why) for _ in range(6)))
    peak = peak_of(evidence, "amp", precision=name)
    phases = [row.phase_seconds.get(phase) for phase in ("forward", "backward", "optimizer")]
    return (
        text_cell(name),
        estimate_cell(row.step_seconds, 1e3, mark=mark_of(row)),
        *(Cell(f"{time * 1e3:.3g}", time * 1e3) if time is not None else empty_cell("not seen") for time in phases),
        scaled_cell(peak.bytes if peak else None, MEGABYTE),
        Cell(f"{row.skipped_steps}", float(row.skipped_steps)),
    )


def scaler_table(evidence: Evidence) -> Table:
    """float16 with and without the scaler, and float32 with the same loss."""
    columns = (
        Column("Run", numeric=False),
        Column("Zero gradients"),
        Column("Skipped steps"),
        Column("Scale, first and last", numeric=False),
        Column("Distance of the loss from float32"),
        Column("Called", numeric=False),
    )
    return Table(
        id="p7-3-scaler",
        title="float16 with a loss so small that its gradients underflow",
        columns=columns,
        rows=(
            _stable_cells(evidence, "float32", None),
            _stable_cells(evidence, "float16, GradScaler", 1),
            _stable_cells(evidence, "float16, no scaler", 0),
        ),
        notes=("Zero gradients: share that is exactly zero, from inspected runs. LR makes up for the small loss.",),
    )


def _stable_cells(evidence: Evidence, label: str, scaler: int | None) -> tuple[Cell, ...]:
    if scaler is None:
        inspected = evidence.inspection("scaler-reference")
        figures = figures_of(evidence, usable(evidence, "scaler-reference"))
        found = stability(figures, None, inspected.gradients if inspected else ())
        why = hole(evidence, "scaler-reference")
    else:
        found, why = scaler_stability(evidence, scaler), hole(evidence, "scaler", scaler=scaler)
    if found is None:
        return (text_cell(label), *(empty_cell(why) for _ in range(5)))
    zeros, curve, scales = found.gradients, found.curve, found.scales
    return (
        text_cell(label),
        Cell(percent_text(zeros.zero_share), zeros.zero_share) if zeros else empty_cell("gradients were not seen"),
        Cell(f"{found.skipped_steps} of {found.steps}", float(found.skipped_steps)),
        text_cell(f"{scales[0]:g}, {scales[-1]:g}" if scales else "none"),
        Cell(percent_text(curve.largest_distance), curve.largest_distance) if curve else text_cell("the reference"),
        text_cell(found.word, note=found.condition),
    )


def _losses(evidence: Evidence) -> Figure | None:
    places = (("float32", "scaler-reference", None), ("float16, GradScaler", "scaler", 1), ("no scaler", "scaler", 0))
    series = []
    for label, name, scaler in places:
        row = usable(evidence, name) if scaler is None else usable(evidence, name, scaler=scaler)
        series.append(loss_series(label, figures_of(evidence, row)))
    caption = "The same batch, seed and weight of the loss; float32 shows what it should look like."
    return loss_figure("p7-3-loss", "Loss with and without GradScaler", caption, series)
