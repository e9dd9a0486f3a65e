"""P7.3: why mixed precision, from which size on it pays, why there is a GradScaler, and what happens without one."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.phrases import listed
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.stability import Gradients, Stability, gradients_of, stability
from scalewise.course.captions import setting
from scalewise.course.gpus import gpu_steps, known_of, told_source
from scalewise.course.measured import MEGABYTE, Point, StepChange, change_between, change_cell, point
from scalewise.course.page_pieces import loss_figure, loss_series
from scalewise.course.selected_arms import figures_of, step_ratio, usable
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Figure, LinePlot, Mark, PlotSeries, Section, Table

ORDER = 20
ROW, TABLE, SIZES, SCALER = "P7.3", "p7-3-amp", "p7-3-sizes", "p7-3-scaler"
CROSSOVER = "p7-3-crossover"
WHY = "Why do we use mixed precision?"
WHY_SCALER = "Why is GradScaler needed?"
WITHOUT = "What happens without GradScaler?"
PRECISIONS = ("float32", "bfloat16", "float16")
HALVES = PRECISIONS[1:]
LOST = 0.01  # share of the gradients: if fewer vanish, a scaler is not needed
NO_FIGURES = "no figures"
GPU_PEAK = "; in the rows of GPUs the peak of torch's CUDA allocator"
GPU_SIZES = ("1024x2", "2048x4", "4096x4", "8192x8")  # the cases of the experiment amp-size-gpu


@dataclass(frozen=True)
class Size:
    """One model in one lower precision against float32: the ratio of the steps."""

    label: str  # DIM x DEPTH: 1024x2
    precision: str
    full: Cell
    half: Cell
    ratio: Estimate
    on_gpu: bool
    mark: Mark

    @property
    def weights(self) -> float:
        """The number of weights in millions."""
        dim, depth = (int(text) for text in self.label.split("x"))
        return dim * dim * depth / 1e6

    @property
    def ratio_cell(self) -> Cell:
        """The ratio; below 1, the lower precision is faster."""
        return estimate_cell(self.ratio, mark=self.mark)


@dataclass(frozen=True)
class Precisions:
    """The data for P7.3."""

    points: dict[str, Point]
    changes: dict[str, StepChange]  # changes against float32
    sizes: tuple[Size, ...]
    gpu_name: str
    scaled: Stability | None
    bare: Stability | None  # float16 without the scaler
    reference: Stability | None  # float32
    lost: dict[str, Gradients]  # label in the scaler's table -> its gradients


def build(evidence: Evidence) -> Section:
    """Builds the section: precisions, sizes and the scaler as tables, figures and answers."""
    found = precisions(evidence)
    figures = [one for one in (_crossover(found), _losses(evidence)) if one]
    blocks: list[Block] = [_table(evidence, found), *_size_table(evidence, found), *figures, _why(found)]
    blocks += [_scaler_table(evidence, found), _why_scaler(found), _without(found)]
    return Section("p7-3", "P7.3 Mixed precision (Code 2)", tuple(blocks))


def precisions(evidence: Evidence) -> Precisions:
    """Returns rows, their changes, the ratio over the size, and the runs with and without the scaler."""
    points = {name: point(evidence, name, "amp", precision=name) for name in PRECISIONS}
    changes = {name: change_between(evidence, points["float32"], points[name]) for name in HALVES}
    known = known_of(evidence)
    seen = {
        "float32": evidence.inspection("scaler-reference"),
        "float16, GradScaler": evidence.inspection("scaler", scaler=1),
        "float16, no scaler": evidence.inspection("scaler", scaler=0),
    }
    lost = {label: gradients_of(one.gradients) if one else None for label, one in seen.items()}
    return Precisions(
        points,
        {name: one for name, one in changes.items() if one},
        (*_sizes_here(evidence), *_sizes_on_gpus(evidence)),
        known.device if known else "",
        _stability(evidence, 1),
        _stability(evidence, 0),
        _stability(evidence, None),
        {label: one for label, one in lost.items() if one},
    )


def _stability(evidence: Evidence, scaler: int | None) -> Stability | None:
    """Returns the stability of the float16 run with or without the scaler against float32; None: of float32."""
    reference = figures_of(evidence, usable(evidence, "scaler-reference"))
    if scaler is None:
        return stability(reference, None, ())
    figures = figures_of(evidence, usable(evidence, "scaler", scaler=scaler))
    inspected = evidence.inspection("scaler", scaler=scaler)
    return stability(figures, reference[0] if reference else None, inspected.gradients if inspected else ())


def _sizes_here(evidence: Evidence) -> list[Size]:
    found = evidence.experiment("amp-size")
    cases = list(dict.fromkeys(str(row.axes["case"]) for row in (found.rows if found else ()) if "case" in row.axes))
    sizes = []
    for case in cases:
        if case in GPU_SIZES and evidence.experiment("amp-size-gpu") is not None:
            continue  # the same size on the same GPU is among the sizes of GPUs
        full = point(evidence, case, "amp-size", case=case, precision="float32")
        half = point(evidence, case, "amp-size", case=case, precision="bfloat16")
        ratio = step_ratio(evidence, half.row, full.row)
        if ratio is not None and full.row is not None:
            gpu = full.row.device == "cuda"
            sizes.append(Size(case, "bfloat16", full.step, half.step, ratio, gpu, full.step.mark))
    return sizes


def _sizes_on_gpus(evidence: Evidence) -> list[Size]:
    sizes = []
    for case in GPU_SIZES:
        full = gpu_steps(evidence, "amp-size-gpu", (1,), case=case, precision="float32")
        for precision in HALVES:
            half = gpu_steps(evidence, "amp-size-gpu", (1,), case=case, precision=precision)
            if full and half:
                cells = [estimate_cell(one[0].step, 1e3, note=one[0].source) for one in (full, half)]
                ratio = ratio_of(half[0].step, full[0].step)
                sizes.append(Size(case, precision, cells[0], cells[1], ratio, True, "measured"))
    return sizes


def _table(evidence: Evidence, found: Precisions) -> Table:
    witness = next((one.peak_witness for one in found.points.values() if one.peak_witness), "")
    on_gpus = _gpu_rows(evidence)
    return Table(
        id=TABLE,
        title="Code 2 in three precisions",
        columns=(
            Column("Precision", numeric=False),
            Column("Ranks"),
            Column("Step", "ms"),
            Column("Against float32", "% of the step"),
            Column("Forward", "ms"),
            Column("Backward", "ms"),
            Column("Optimizer", "ms"),
            Column("Memory", "MB"),
            Column("Skipped steps"),
        ),
        rows=(*(_cells(found, name) for name in PRECISIONS), *on_gpus),
        notes=(
            *(f"{name}: {one.missing}." for name, one in found.points.items() if one.missing),
            *([f"Memory: {witness}{GPU_PEAK if on_gpus else ''}."] if witness else []),
            *([told_source(evidence)] if on_gpus else []),
        ),
        caption=setting(evidence, "amp", but=("ranks",)),
        groups=((0, "On this machine"), (len(PRECISIONS), f"On two {found.gpu_name}")) if on_gpus else (),
        runs=(*(found.points[name].run_names for name in PRECISIONS), *(() for _ in on_gpus)),
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


def _gpu_rows(evidence: Evidence) -> list[tuple[Cell, ...]]:
    """Returns rows of two GPUs, if the ranks of this machine had none of their own."""
    rows = []
    for name in PRECISIONS:
        for one in gpu_steps(evidence, "amp", (2,), precision=name):
            step = estimate_cell(one.step, 1e3, mark=one.mark, note=one.source)
            empty = [empty_cell("not recorded there") for _ in range(4)]
            peak = number_cell(one.peak_bytes, 1 / MEGABYTE, mark=one.mark, why_empty="not recorded there")
            head = text_cell(name, mark=one.mark), count_cell(one.ranks, mark=one.mark)
            rows.append((*head, step, *empty, peak, empty_cell("not recorded there")))
    return rows


def _size_table(evidence: Evidence, found: Precisions) -> list[Table]:
    if not found.sizes:
        return []
    here = [one for one in found.sizes if not one.on_gpu]
    there = [one for one in found.sizes if one.on_gpu]
    rows = tuple(
        (
            text_cell(f"{_shown(one)}, {one.precision}", mark=one.mark),
            number_cell(one.weights),
            one.full,
            one.half,
            one.ratio_cell,
        )
        for one in (*here, *there)
    )
    groups = ((0, "On the CPU, one rank"),) if here else ()
    return [
        Table(
            id=SIZES,
            title="Lower precision against float32, over the size of the model",
            columns=(
                Column("DIM × DEPTH, precision", numeric=False),
                Column("Weights", "millions"),
                Column("float32", "ms"),
                Column("Lower precision", "ms"),
                Column("Ratio"),
            ),
            rows=rows,
            notes=(
                "Ratio below 1: the lower precision is faster.",
                *([told_source(evidence, predicted=False)] if there else []),
            ),
            caption=setting(evidence, "amp-size", but=("DIM", "DEPTH")),
            groups=(*groups, (len(here), f"On one {found.gpu_name}")) if there else groups,
        )
    ]


def _crossover(found: Precisions) -> Figure | None:
    series = []
    for on_gpu, precision in ((False, "bfloat16"), (True, "bfloat16"), (True, "float16")):
        known = sorted(
            (one for one in found.sizes if one.on_gpu == on_gpu and one.precision == precision),
            key=lambda one: one.weights,
        )
        if len(known) > 1:
            name = f"{precision}, {found.gpu_name if on_gpu else 'this CPU'}"
            series.append(
                PlotSeries(
                    name,
                    tuple(one.weights for one in known),
                    tuple(one.ratio.value for one in known),
                    tuple(one.ratio.low for one in known),
                    tuple(one.ratio.high for one in known),
                )
            )
    if not series:
        return None
    ends = [x for one in series for x in one.x]
    same = PlotSeries("as fast as float32", (min(ends), max(ends)), (1.0, 1.0), style="ideal")
    plot = LinePlot("weights (millions)", "step over that of float32", (*series, same), log_x=True)
    return Figure(CROSSOVER, "Where mixed precision pays", "Below 1 it is faster. Whiskers: 95 % intervals.", plot)


def _why(found: Precisions) -> Answer:
    rests_on = (TABLE, *([SIZES, CROSSOVER] if found.sizes else []))
    general = (
        "16-bit numbers halve the bytes of activations and of what is read for every product, and tensor cores multiply"
        " them several times as fast as float32; weights and their update stay in float32."
    )
    best = found.changes.get("bfloat16") or found.changes.get("float16")
    if best is None:
        missing = "; ".join(one.missing for one in found.points.values() if one.missing) or NO_FIGURES
        return Answer(
            ROW,
            WHY,
            f"To compute faster in less memory; here it was not measured: {missing}.",
            why=general,
            rests_on=rests_on,
        )
    name = next(key for key, one in found.changes.items() if one is best)
    times = " and ".join(f"{key} takes {one.words()}" for key, one in found.changes.items())
    larger = ", though it is with larger products" if any(one.ratio.high < 1 for one in found.sizes) else ""
    verdict = {
        "faster": f"To compute faster in less memory, and here it is faster: {name} takes {best.words()} than float32.",
        "slower": f"To compute faster in less memory; here, against the sheet, it is slower: {name} takes "
        "{best.words()}.",
        "cannot tell": (
            f"To compute faster in less memory; with so small a model {name} is not clearly faster here{larger}."
        ),
    }[best.verdict]
    return Answer(
        ROW,
        WHY,
        verdict=verdict,
        number=f"Against float32, {times}.{_memory_words(found)}",
        why=f"{general} {_why_here(found)}".rstrip(),
        practice=_crossover_words(found),
        decided="; ".join(
            f"{key} against float32: {said_with_interval(one.cell, '%')}, against 0"
            for key, one in found.changes.items()
        ),
        rests_on=rests_on,
        hint="Use the step and the memory of each precision, and the size from which on the ratio falls below 1.",
    )


def _why_here(found: Precisions) -> str:
    """Returns why a precision lost time, or that the gain shows; empty if neither is so."""
    slower = [key for key, one in found.changes.items() if one.verdict == "slower"]
    if not slower:
        faster = any(one.verdict == "faster" for one in found.changes.values())
        return "Here the products are large enough for that to show." if faster else ""
    row = found.points["float32"].row
    if row is not None and row.device == "cuda":
        return (
            f"Here {listed(slower)} loses: the model is so small that the GPU waits for Python to launch its "
            "kernels, and casts and the scaler only add launches."
        )
    return (
        f"Here {listed(slower)} loses: a CPU without units for it converts to float32 and back for each product, "
        "which costs more than the smaller numbers save."
    )


def _memory_words(found: Precisions) -> str:
    """Returns the effect of lower precision on the peak, with both numbers from the table."""
    full, half = found.points["float32"], found.points["float16"]
    if full.peak_bytes is None or half.peak_bytes is None:
        return ""
    cells = f"{said(half.peak_mb, 'MB')} against {said(full.peak_mb, 'MB')}"
    if half.peak_mb.text == full.peak_mb.text:
        return f" The peak of memory is the same, {said(full.peak_mb, 'MB')}."
    if half.peak_bytes < full.peak_bytes:
        return f" float16 needs less memory at its peak: {cells}."
    return (
        f" float16 needs more memory at its peak, {cells}: the 16-bit copies of the weights take more than what "
        "smaller activations save with so small a batch."
    )


def _crossover_words(found: Precisions) -> str:
    pays = [one for one in found.sizes if one.ratio.high < 1]
    costs = [one for one in found.sizes if one.ratio.low > 1]
    if pays and costs:
        best, worst = min(pays, key=lambda one: one.ratio.value), max(costs, key=lambda one: one.ratio.value)
        return (
            f"It pays for large products: {_size_words(best, found)} takes {said(best.ratio_cell)} times the step of"
            f" float32, but {_size_words(worst, found)} takes {said(worst.ratio_cell)} times. Measure before you switch"
            " it on."
        )
    if pays:
        best = min(pays, key=lambda one: one.ratio.value)
        return (
            f"It pays from the smallest size that was tried; most with {_size_words(best, found)},"
            f" {said(best.ratio_cell)} times the step."
        )
    if costs:
        worst = max(costs, key=lambda one: one.ratio.value)
        return (
            f"At no size that was tried does it pay here; {_size_words(worst, found)} takes {said(worst.ratio_cell)}"
            " times the step."
        )
    return "Measure before you switch it on: whether it pays depends on the size and on the device."


def _shown(one: Size) -> str:
    return one.label.replace("x", " × ")


def _size_words(one: Size, found: Precisions) -> str:
    where = found.gpu_name if one.on_gpu else "this CPU"
    return f"{one.precision} with {_shown(one)} on {where}"


def _scaler_table(evidence: Evidence, found: Precisions) -> Table:
    return Table(
        id=SCALER,
        title="float16 with a loss so small that its gradients vanish",
        columns=(
            Column("Run", numeric=False),
            Column("Gradients that are 0", "%"),
            Column("Skipped steps"),
            Column("Scale, first and last", numeric=False),
            Column("Loss apart from float32", "% at most"),
            Column("Training", numeric=False),
        ),
        rows=(
            _stable_cells(found, "float32", found.reference),
            _stable_cells(found, "float16, GradScaler", found.scaled),
            _stable_cells(found, "float16, no scaler", found.bare),
        ),
        notes=("The loss is multiplied by LOSS_WEIGHT 1e-5, and LR by as much the other way.",),
        caption=setting(evidence, "scaler"),
    )


def _stable_cells(found: Precisions, label: str, one: Stability | None) -> tuple[Cell, ...]:
    if one is None:
        return text_cell(label), *(empty_cell("it was not run") for _ in range(5))
    zeros, scales = found.lost.get(label), one.scales
    apart = number_cell(one.curve.largest_distance, 100) if one.curve else empty_cell("this is the reference")
    return (
        text_cell(label),
        number_cell(zeros.zero_share if zeros else None, 100, why_empty="its gradients were not looked at"),
        text_cell(f"{one.skipped_steps} of {one.steps}"),
        text_cell(f"{scales[0]:g}, {scales[-1]:g}" if scales else "none"),
        apart,
        text_cell(one.word, note=one.condition),
    )


def _zeros(found: Precisions, label: str) -> Cell:
    return number_cell(found.lost[label].zero_share, 100)


def _why_scaler(found: Precisions) -> Answer:
    general = (
        "float16 has no positive number below 6e-8: smaller gradients become exactly 0, and their weights learn"
        " nothing."
    )
    if not {"float16, GradScaler", "float16, no scaler"} <= set(found.lost):
        verdict = "To keep small gradients from becoming 0 in float16; it was not measured here."
        return Answer(ROW, WHY_SCALER, verdict, rests_on=(SCALER,))
    bare, scaled = _zeros(found, "float16, no scaler"), _zeros(found, "float16, GradScaler")
    rescued = ((bare.number or 0) - (scaled.number or 0)) / 100 > LOST
    natural = ""
    if "float32" in found.lost:
        natural = f" In float32 {said(_zeros(found, 'float32'), '%')} are 0 as well: units that ReLU has switched off."
    return Answer(
        ROW,
        WHY_SCALER,
        verdict=(
            "Because small gradients become 0 in float16, and the scaler keeps them."
            if rescued
            else "To keep small gradients from becoming 0; these gradients are large enough without it."
        ),
        number=f"{said(bare, '%')} of the gradients are 0 without it, {said(scaled, '%')} with it.{natural}",
        why=(
            "The scaler multiplies the loss, so all gradients grow by as much before they are rounded to float16; it"
            " divides them again, in float32, before the optimizer uses them."
        ),
        practice="bfloat16 has the range of float32 and needs no scaler.",
        decided=f"{general} A difference of more than {100 * LOST:.0f} percentage point counts as kept.",
        rests_on=(SCALER,),
        hint="Compare the share of gradients that are 0 with and without the scaler, and with float32.",
    )


def _without(found: Precisions) -> Answer:
    bare, scaled = found.bare, found.scaled
    if bare is None or scaled is None or bare.curve is None or scaled.curve is None:
        return Answer(ROW, WITHOUT, "This cannot be answered: one of the two runs is missing.", rests_on=(SCALER,))
    apart = number_cell(bare.curve.largest_distance, 100)
    near = number_cell(scaled.curve.largest_distance, 100)
    worse = bare.curve.largest_distance > 2 * scaled.curve.largest_distance
    skipped = (
        f" It skipped {scaled.skipped_steps} of {scaled.steps} steps, those in which its first scale was too large."
        if scaled.skipped_steps
        else " It skipped no step."
    )
    return Answer(
        ROW,
        WITHOUT,
        verdict=(
            "The model learns little or nothing: its loss stays far from that of float32."
            if worse
            else "With these gradients it makes no difference that shows."
        ),
        number=(
            f"The loss differs from float32's by up to {said(apart, '%')} without the scaler, by {said(near, '%')} "
            "with it."
        ),
        why=(
            "Gradients that were rounded to 0 move no weight, however large LR is."
            if worse
            else "Few gradients are so small that float16 loses them."
        ),
        practice=f"Use the scaler with float16, and let it choose its scale.{skipped}",
        decided=f"Without: {bare.condition}. With: {scaled.condition}.",
        rests_on=(SCALER, "p7-3-loss"),
        hint="Compare how far the losses with and without the scaler differ from those of float32.",
    )


def _losses(evidence: Evidence) -> Figure | None:
    places = (("float32", "scaler-reference", None), ("float16, GradScaler", "scaler", 1), ("no scaler", "scaler", 0))
    series = []
    for label, name, scaler in places:
        row = usable(evidence, name) if scaler is None else usable(evidence, name, scaler=scaler)
        series.append(loss_series(label, figures_of(evidence, row)))
    caption = "The same batch, seed and weight of the loss; float32 shows how it should fall."
    return loss_figure("p7-3-loss", "Loss with and without GradScaler", caption, series)
