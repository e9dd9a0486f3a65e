"""P7.3: why mixed precision, from which size on it pays, why there is a GradScaler, and what happens without one."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import Gradients, Stability, gradients_of, stability
from scalewise.course.gpus import GpuStep, gpu_steps, known_of, told_source
from scalewise.course.homework import Question
from scalewise.course.measured_arms import (
    MEGABYTE,
    SAME,
    Point,
    StepChange,
    change_between,
    change_cell,
    figures_of,
    memory_sign,
    point,
    usable,
    witness_notes,
)
from scalewise.course.page_pieces import gpu_rows_heading, loss_figure, loss_series, setting
from scalewise.course.practical7.precision_sizes import (
    CROSSOVER,
    HALVES,
    SIZES,
    Size,
    crossover,
    crossover_words,
    size_table,
    sizes_of,
)
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Figure, Section, Table
from scalewise.units import listed

ORDER = 20
TABLE = "p7-3-amp"
WHY = Question(
    "P7.3",
    "Why do we use mixed precision?",
    "Use the step and the memory of each precision, and the size from which on the ratio falls below 1.",
)
PRECISIONS = ("float32", *HALVES)
NO_FIGURES = "no figures"
GPU_PEAK = "; in the rows of GPUs the peak of torch's CUDA allocator"
SCALER, LOSSES = "p7-3-scaler", "p7-3-loss"
WHY_SCALER = Question(
    "P7.3",
    "Why is GradScaler needed?",
    "Compare the share of gradients that are 0 with and without the scaler, and with float32.",
)
WITHOUT = Question(
    "P7.3",
    "What happens without GradScaler?",
    "Compare how far the losses with and without the scaler differ from those of float32.",
)
LOST = 0.01  # share of the gradients: fewer that vanish are no reason for a scaler
PLAIN, SCALED, BARE, LARGE = "float32", "float16, GradScaler", "float16, no scaler", "float16, GradScaler, large loss"


@dataclass(frozen=True)
class Precisions:
    """The data for P7.3."""

    points: dict[str, Point]
    changes: dict[str, StepChange]  # changes against float32
    sizes: tuple[Size, ...]
    ranks: int  # of the three precisions
    alone: Size | None  # the same model in bfloat16 on one rank of this CPU
    gpu_name: str


def build(evidence: Evidence) -> Section:
    """Builds the section: precisions, sizes and the scaler as tables, figures and answers."""
    found = precisions(evidence)
    scaled = scaler_runs(evidence)
    figures = [one for one in (crossover(found.sizes, found.gpu_name), losses(evidence)) if one]
    sizes = size_table(evidence, found.sizes, found.gpu_name)
    blocks: list[Block] = [_table(evidence, found), *sizes, *figures, _why(found)]
    blocks += [scaler_table(evidence, scaled), why_scaler(scaled), without_scaler(scaled)]
    return Section("p7-3", "P7.3 Mixed precision (Code 2)", tuple(blocks), labelled=False)


def precisions(evidence: Evidence) -> Precisions:
    """Returns rows, their changes, the ratio over the size, and the runs with and without the scaler."""
    points = {name: point(evidence, name, "amp", precision=name) for name in PRECISIONS}
    changes = {name: change_between(evidence, points["float32"], points[name]) for name in HALVES}
    known = known_of(evidence)
    row = points["float32"].row
    sizes = sizes_of(evidence)
    return Precisions(
        points,
        {name: one for name, one in changes.items() if one},
        sizes,
        row.ranks if row else 0,
        next((one for one in sizes if not one.on_gpu and one.label == _model(evidence, points["float32"])), None),
        known.device if known else "",
    )


def _model(evidence: Evidence, one: Point) -> str:
    """`512x2`: DIM and DEPTH of the runs behind the point; empty where there are none."""
    run = evidence.run(one.run_names[0]) if one.run_names else None
    return f"{run.spec.env.get('DIM')}x{run.spec.env.get('DEPTH')}" if run else ""


def _table(evidence: Evidence, found: Precisions) -> Table:
    steps = [(name, one) for name in PRECISIONS for one in gpu_steps(evidence, "amp", (2,), precision=name)]
    there = [_gpu_cells(name, one) for name, one in steps]
    return Table(
        id=TABLE,
        title="Code 2 in three precisions",
        columns=(
            Column("Precision", numeric=False),
            Column("Ranks"),
            Column("Step", "ms"),
            Column("Against float32", "% more time"),
            Column("Forward", "ms"),
            Column("Backward", "ms"),
            Column("Optimizer", "ms"),
            Column("Memory", "MB"),
            Column("Skipped steps"),
        ),
        rows=(*(_cells(found, name) for name in PRECISIONS), *there),
        notes=(
            *(f"{name}: {one.missing}." for name, one in found.points.items() if one.missing),
            *witness_notes((one.peak_witness for one in found.points.values()), GPU_PEAK if there else ""),
            *([told_source(evidence)] if there else []),
        ),
        caption=setting(evidence, "amp", but=("ranks",)),
        groups=(
            (
                (0, "On this machine"),
                (len(PRECISIONS), gpu_rows_heading(f"On two {found.gpu_name}", [one for _, one in steps], "DIM")),
            )
            if there
            else ()
        ),
        runs=(*(found.points[name].run_names for name in PRECISIONS), *(() for _ in there)),
    )


def _cells(found: Precisions, name: str) -> tuple[Cell, ...]:
    one = found.points[name]
    if one.row is None:
        return text_cell(name), *(empty_cell(one.missing) for _ in range(8))
    return (
        text_cell(name, mark=one.ranks.mark),
        one.ranks,
        one.step,
        change_cell(found.changes.get(name), "float32 is the base"),
        *(one.phase(phase) for phase in ("forward", "backward", "optimizer")),
        one.peak_mb,
        count_cell(one.row.skipped_steps),
    )


def _gpu_cells(name: str, one: GpuStep) -> tuple[Cell, ...]:
    """Two GPUs, where the ranks of this machine had none of their own."""
    step = estimate_cell(one.step, 1e3, mark=one.mark, note=one.source)
    empty = [empty_cell("not recorded there") for _ in range(4)]
    peak = number_cell(one.peak_bytes, 1 / MEGABYTE, mark=one.mark, why_empty="not recorded there")
    head = text_cell(name, mark=one.mark), count_cell(one.ranks, mark=one.mark)
    return (*head, step, *empty, peak, empty_cell("not recorded there"))


def _why(found: Precisions) -> Answer:
    rests_on = (TABLE, *([SIZES, CROSSOVER] if found.sizes else []))
    general = (
        "16-bit numbers halve the bytes of activations and of what a product reads, and tensor cores multiply them"
        " several times as fast; weights and their update stay float32."
    )
    best = found.changes.get("bfloat16") or found.changes.get("float16")
    if best is None:
        missing = "; ".join(one.missing for one in found.points.values() if one.missing) or NO_FIGURES
        return WHY.without_hint(
            f"To compute faster in less memory; here it was not measured: {missing}.", why=general, rests_on=rests_on
        )
    name = next(key for key, one in found.changes.items() if one is best)
    rest = {key: one for key, one in found.changes.items() if key != name or best.verdict == "cannot tell"}
    times = " and ".join(f"{key} takes {one.words()}" for key, one in rest.items())
    verdict = {
        "faster": f"To compute faster in less memory, and here it is faster: {name} takes {best.words()} than float32.",
        "slower": (
            f"To compute faster in less memory; here, against the sheet, it is slower: {name} takes {best.words()} than"
            " float32."
        ),
        "cannot tell": f"To compute faster in less memory; {_not_clearly(found, name)}.",
    }[best.verdict]
    return WHY.answer(
        verdict,
        f"{f'Against float32, {times}.' if times else ''}{_memory_words(found)}".strip(),
        f"{general} {_why_here(found)}".rstrip(),
        crossover_words(found.sizes, found.gpu_name),
        decided="; ".join(
            f"{key} against float32: {said_with_interval(one.cell, '%')}, against 0"
            for key, one in found.changes.items()
        ),
        rests_on=rests_on,
    )


def _not_clearly(found: Precisions, name: str) -> str:
    """A gain that does not show on several ranks, though the same model gains on one."""
    ranks, alone = found.ranks, found.alone
    if alone is None or name != alone.precision:
        return f"{name} is not clearly faster here"
    if ranks > 1 and alone.pays:
        return f"on {ranks} ranks {name} is not clearly faster here, on one rank it is"
    larger = any(one.pays and one.weights > alone.weights and not one.on_gpu for one in found.sizes)
    tail = ", though it is with larger products" if larger else ""
    return f"with so small a model {name} is not clearly faster here{tail}"


def _why_here(found: Precisions) -> str:
    """The reason why a precision lost time, or why its gain shows or is hidden; empty if nothing is known of it."""
    return " ".join(filter(None, (_hidden(found), _why_slower(found))))


def _hidden(found: Precisions) -> str:
    """The part of a step on several ranks that a lower precision cannot shorten."""
    change, alone = found.changes.get("bfloat16"), found.alone
    if change is None:
        return ""
    if change.verdict == "faster":
        return "These products are large enough for bfloat16 to show it."
    if change.verdict != "cannot tell" or alone is None or not alone.pays or found.ranks < 2:
        return ""
    return (
        f"One rank with the same model takes {said(alone.ratio_cell)} times float32's step in bfloat16. Each of"
        f" {found.ranks} ranks has only its part of the batch, and in backward an all-reduce of"
        " gradients, which stay float32."
    )


def _why_slower(found: Precisions) -> str:
    slower = [key for key, one in found.changes.items() if one.verdict == "slower"]
    if not slower:
        return ""
    row = found.points["float32"].row
    lose = f"Here {listed(slower)} {'loses' if len(slower) == 1 else 'lose'}"
    if row is not None and row.device == "cuda":
        return (
            f"{lose}: the model is so small that the GPU waits for Python to launch its kernels, and casts and the "
            "scaler only add launches."
        )
    half, other = found.points["float16"], found.points["bfloat16"]
    times = [one.phase("backward") for one in (half, other)]
    if slower == ["float16"] and other.row is not None and all(one.number for one in times):
        spent = half.phase("optimizer")
        return (
            f"{lose} by its products, not by its casts, which bfloat16 makes as well: backward takes"
            f" {said(times[0], 'ms')} against {said(times[1], 'ms')}, optimizer and scaler only {said(spent, 'ms')}."
            " PyTorch has no fast float16 product for this CPU."
        )
    return f"{lose}: casts, and products for which this CPU has no fast units, cost more than the smaller numbers save."


def _memory_words(found: Precisions) -> str:
    """Returns the effect of lower precision on the peak, with both numbers from the table."""
    full, half = found.points["float32"], found.points["float16"]
    if full.peak_bytes is None or half.peak_bytes is None:
        return ""
    cells = f"{said(half.peak_mb, 'MB')} against {said(full.peak_mb, 'MB')}"
    sign = memory_sign(full.peak_bytes, half.peak_bytes)
    if sign == "same":
        return f" The peak of memory is the same within {100 * SAME:.0f} %: float16 needs {cells}."
    if sign == "less":
        return f" float16 needs less memory at its peak: {cells}."
    return (
        f" float16 needs more memory at its peak, {cells}: with so small a batch, a layer's gradient in 16 bits"
        " beside its copy in float32 takes more than activations save."
    )


@dataclass(frozen=True)
class ScalerRuns:
    """The runs with and without the scaler, and float32 beside them."""

    scaled: Stability | None
    bare: Stability | None  # float16 without the scaler
    reference: Stability | None  # float32
    large: Stability | None  # float16 with the scaler and a loss that is too large for its first scale
    lost: dict[str, Gradients]  # by the label of the table


def scaler_runs(evidence: Evidence) -> ScalerRuns:
    """Everything that the two answers rest on."""
    seen = {
        PLAIN: evidence.inspection("scaler-reference"),
        SCALED: evidence.inspection("scaler", scaler=1),
        BARE: evidence.inspection("scaler", scaler=0),
        LARGE: evidence.inspection("overflow"),
    }
    lost = {label: gradients_of(one.gradients) if one else None for label, one in seen.items()}
    return ScalerRuns(
        _stability(evidence, 1),
        _stability(evidence, 0),
        _stability(evidence, None),
        stability(figures_of(evidence, usable(evidence, "overflow")), None, ()),
        {label: one for label, one in lost.items() if one},
    )


def _stability(evidence: Evidence, scaler: int | None) -> Stability | None:
    """The stability of the float16 run with or without the scaler beside float32; of float32 itself for None."""
    reference = figures_of(evidence, usable(evidence, "scaler-reference"))
    if scaler is None:
        return stability(reference, None, ())
    figures = figures_of(evidence, usable(evidence, "scaler", scaler=scaler))
    inspected = evidence.inspection("scaler", scaler=scaler)
    return stability(figures, reference[0] if reference else None, inspected.gradients if inspected else ())


def scaler_table(evidence: Evidence, found: ScalerRuns) -> Table:
    """Gradients, skipped steps and scale of each run."""
    weights = [_weight(evidence, name) for name in ("scaler", "overflow")]
    large = f" (in the last row {float(weights[1]):g})" if weights[1] and found.large else ""
    return Table(
        id=SCALER,
        title="float16 with a loss so small that its gradients vanish"
        + (", and with one too large for the first scale" if found.large else ""),
        columns=(
            Column("Run", numeric=False),
            Column("Gradients that are 0", "%"),
            Column("Skipped steps"),
            Column("Scale, first and last", numeric=False),
            Column("Loss apart from float32", "% at most"),
            Column("Training", numeric=False),
        ),
        rows=(
            _stable_cells(found, PLAIN, found.reference),
            _stable_cells(found, SCALED, found.scaled),
            _stable_cells(found, BARE, found.bare),
            *([_stable_cells(found, LARGE, found.large)] if found.large else []),
        ),
        notes=(
            (f"The loss is multiplied by LOSS_WEIGHT {weights[0]}{large}, and LR by as much the other way.",)
            if weights[0]
            else ()
        ),
        caption=setting(evidence, "scaler", but=("LR",), bracket=False),
    )


def _weight(evidence: Evidence, experiment: str) -> str:
    """LOSS_WEIGHT as the runs had it; empty where none was set."""
    env = (run.spec.env for run in evidence.loaded.runs if run.spec.experiment == experiment)
    return next((one["LOSS_WEIGHT"] for one in env if "LOSS_WEIGHT" in one), "")


def _stable_cells(found: ScalerRuns, label: str, one: Stability | None) -> tuple[Cell, ...]:
    if one is None:
        return text_cell(label), *(empty_cell("it was not run") for _ in range(5))
    zeros, scales = found.lost.get(label), one.scales
    other = "this is the reference" if label == PLAIN else "its loss is weighted otherwise"
    apart = number_cell(one.curve.largest_distance, 100) if one.curve else empty_cell(other)
    return (
        text_cell(label),
        number_cell(zeros.zero_share if zeros else None, 100, why_empty="its gradients were not looked at"),
        text_cell(f"{one.skipped_steps} of {one.steps}"),
        text_cell(f"{scales[0]:g}, {scales[-1]:g}" if scales else "none"),
        apart,
        text_cell(one.word, note=one.condition),
    )


def _zeros(found: ScalerRuns, label: str) -> Cell:
    return number_cell(found.lost[label].zero_share, 100)


def why_scaler(found: ScalerRuns) -> Answer:
    """Returns the answer on why a scaler is used: which gradients become 0 without it."""
    general = (
        "float16 has no positive number below 6e-8: smaller gradients become exactly 0, and their weights learn"
        " nothing."
    )
    if not {SCALED, BARE} <= set(found.lost):
        verdict = "To keep small gradients from becoming 0 in float16; it was not measured here."
        return WHY_SCALER.without_hint(verdict, rests_on=(SCALER,))
    bare, scaled = _zeros(found, BARE), _zeros(found, SCALED)
    rescued = ((bare.number or 0) - (scaled.number or 0)) / 100 > LOST
    natural = ""
    if PLAIN in found.lost:
        natural = f" In float32 {said(_zeros(found, PLAIN), '%')} are 0 as well: units that ReLU has switched off."
    return WHY_SCALER.answer(
        (
            "Because small gradients become 0 in float16, and the scaler keeps them."
            if rescued
            else "To keep small gradients from becoming 0; these gradients are large enough without it."
        ),
        f"{said(bare, '%')} of the gradients are 0 without it, {said(scaled, '%')} with it.{natural}",
        (
            "The scaler multiplies the loss, so all gradients grow by as much before they are rounded to float16; it"
            " divides them again, in float32, before the optimizer uses them."
        ),
        "bfloat16 has the range of float32 and needs no scaler.",
        decided=f"{general} A difference of more than {100 * LOST:.0f} percentage point counts as kept.",
        rests_on=(SCALER,),
    )


def without_scaler(found: ScalerRuns) -> Answer:
    """Returns the answer on what float16 alone does to the training, and why the scale is not a fixed one."""
    bare, scaled = found.bare, found.scaled
    if bare is None or scaled is None or bare.curve is None or scaled.curve is None:
        return WITHOUT.without_hint("This cannot be answered: one of the two runs is missing.", rests_on=(SCALER,))
    apart = number_cell(bare.curve.largest_distance, 100)
    near = number_cell(scaled.curve.largest_distance, 100)
    untrained = bare.word == "not trained"
    worse = untrained or not bare.curve.within
    return WITHOUT.answer(
        (
            "The model learns little or nothing: its loss stays far from that of float32."
            if untrained
            else "The training drifts: its loss leaves that of float32 by more than rounding explains."
            if worse
            else "With these gradients it makes no difference that shows."
        ),
        (
            f"The loss differs from float32's by up to {said(apart, '%')} without the scaler, by {said(near, '%')} "
            "with it."
        ),
        (
            "Gradients that were rounded to 0 move no weight, however large LR is."
            if worse
            else "Few gradients are so small that float16 loses them."
        ),
        f"Use the scaler with float16, and let it choose its scale.{_dynamic(found)}",
        decided=f"Without: {bare.condition}. With: {scaled.condition}.",
        rests_on=(SCALER, LOSSES),
    )


def _dynamic(found: ScalerRuns) -> str:
    """A sentence on why the scale changes, as seen with a loss that is too large for the first scale."""
    why = " A fixed scale fits one loss only:"
    large = found.large
    if large is None or not large.skipped_steps or len(large.scales) < 2:
        return f"{why} where gradients overflow, it skips the step and halves its scale, and later tries a larger one."
    return (
        f"{why} with a much larger one gradients overflow at {large.scales[0]:g}; the scaler skipped"
        f" {large.skipped_steps} of {large.steps} steps and halved its scale each time, to {large.scales[-1]:g}."
    )


def losses(evidence: Evidence) -> Figure | None:
    """Returns the figure of the losses with and without the scaler, and of float32."""
    places = ((PLAIN, "scaler-reference", None), (SCALED, "scaler", 1), ("no scaler", "scaler", 0))
    series = []
    for label, name, scaler in places:
        row = usable(evidence, name) if scaler is None else usable(evidence, name, scaler=scaler)
        series.append(loss_series(label, figures_of(evidence, row)))
    caption = "The same batch, seed and weight of the loss; float32 shows how it should fall."
    return loss_figure(LOSSES, "Loss with and without GradScaler", caption, series)
