"""P7.3, from which size on a lower precision pays: the ratio of the steps over the size of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import ratio_of
from scalewise.course.gpus import gpu_steps, known_of, told_source
from scalewise.course.measured_arms import point, step_ratio
from scalewise.course.page_pieces import estimates_series, gpu_rows_heading, setting
from scalewise.report.cells import empty_cell, estimate_cell, number_cell, said, text_cell
from scalewise.report.document import Cell, Column, Figure, LinePlot, Mark, PlotSeries, Table
from scalewise.units import listed

SIZES, CROSSOVER = "p7-3-sizes", "p7-3-crossover"
HALVES = ("bfloat16", "float16")
GPU_SIZES = ("1024x2", "2048x4", "4096x4", "8192x8")  # the cases of the experiment amp-size-gpu
MORE_WEIGHTS, NO_MORE_TIME = 8.0, 3.0  # times: a step that grows so little with so many weights is one of launches


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
        """Millions of weights."""
        dim, depth = (int(text) for text in self.label.split("x"))
        return dim * dim * depth / 1e6

    @property
    def shown(self) -> str:
        """`1024 × 2`."""
        return self.label.replace("x", " × ")

    @property
    def pays(self) -> bool:
        """Clearly faster than float32."""
        return self.ratio.high < 1

    @property
    def ratio_cell(self) -> Cell:
        """Below 1: the lower precision is faster."""
        return estimate_cell(self.ratio, mark=self.mark)


def sizes_of(evidence: Evidence) -> tuple[Size, ...]:
    """The sizes on the CPU of this machine, and on GPUs."""
    return (*_sizes_here(evidence), *_sizes_on_gpus(evidence))


def _sizes_here(evidence: Evidence) -> list[Size]:
    found = evidence.experiment("amp-size")
    cases = list(dict.fromkeys(str(row.axes["case"]) for row in (found.rows if found else ()) if "case" in row.axes))
    sizes = []
    for case in cases:
        if case in GPU_SIZES and evidence.experiment("amp-size-gpu") is not None:
            continue  # the same size on the same GPU: it stands among the sizes of GPUs
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


def size_table(evidence: Evidence, sizes: Sequence[Size], gpu_name: str) -> list[Table]:
    """One row for each model, with every lower precision beside float32; none where none was measured."""
    if not sizes:
        return []
    shown = [name for name in HALVES if any(one.precision == name for one in sizes)]
    models = list(dict.fromkeys((one.on_gpu, one.label) for one in sorted(sizes, key=lambda one: one.on_gpu)))
    rows = [_model_cells([one for one in sizes if (one.on_gpu, one.label) == model], shown) for model in models]
    here = sum(not on_gpu for on_gpu, _ in models)
    groups = ((0, "On the CPU, one rank"),) if here else ()
    halves = [(Column(name, "ms"), Column("Ratio", f"{name} / float32")) for name in shown]
    return [
        Table(
            id=SIZES,
            title="Lower precision against float32, over the size of the model",
            columns=(
                Column("DIM × DEPTH", numeric=False),
                Column("Weights", "millions"),
                Column("float32", "ms"),
                *(column for pair in halves for column in pair),
            ),
            rows=tuple(rows),
            notes=(
                "Ratio below 1: the lower precision is faster."
                + (f" {told_source(evidence, predicted=False)}" if here < len(models) else ""),
            ),
            caption=setting(evidence, "amp-size", but=("DIM", "DEPTH")),
            groups=(*groups, (here, _heading(evidence, gpu_name))) if here < len(models) else groups,
        )
    ]


def _model_cells(found: Sequence[Size], shown: Sequence[str]) -> tuple[Cell, ...]:
    first = found[0]
    by_name = {one.precision: one for one in found}
    missing = empty_cell("not measured with this size")
    halves = [(one.half, one.ratio_cell) if (one := by_name.get(name)) else (missing, missing) for name in shown]
    return (
        text_cell(first.shown, mark=first.mark),
        number_cell(first.weights),
        first.full,
        *(cell for pair in halves for cell in pair),
    )


def _heading(evidence: Evidence, gpu_name: str) -> str:
    """The heading with the steps of all recordings, since one size may be recorded in several experiments."""
    known = known_of(evidence)
    if known is None:
        return f"On one {gpu_name}"
    found = [
        record
        for case in GPU_SIZES
        for name in ("float32", *HALVES)
        if (one := known.of(evidence.loaded.name, "amp-size-gpu", 1, {"case": case, "precision": name})) is not None
        for record in known.alike(one, 1)
        if record.step is not None
    ]
    return gpu_rows_heading(f"On one {gpu_name}", found, "STEPS")


def crossover(sizes: Sequence[Size], gpu_name: str) -> Figure | None:
    """The ratio over the size, device by device."""
    series = []
    for on_gpu, precision in ((False, "bfloat16"), (True, "bfloat16"), (True, "float16")):
        known = sorted(
            (one for one in sizes if one.on_gpu == on_gpu and one.precision == precision), key=lambda one: one.weights
        )
        if len(known) > 1:
            name = f"{precision}, {gpu_name if on_gpu else 'this CPU'}"
            series.append(estimates_series(name, [(one.weights, one.ratio) for one in known]))
    if not series:
        return None
    ends = [x for one in series for x in one.x]
    same = PlotSeries("as fast as float32", (min(ends), max(ends)), (1.0, 1.0), style="ideal")
    plot = LinePlot("weights (millions)", "step over that of float32", (*series, same), log_x=True)
    return Figure(CROSSOVER, "Where mixed precision pays", "Below 1 it is faster. Whiskers: 95 % intervals.", plot)


def crossover_words(sizes: Sequence[Size], gpu_name: str) -> str:
    """Device by device: from which size on it pays, and why not below."""
    told = []
    for on_gpu, where in ((False, "this CPU"), (True, gpu_name)):
        for_precision = {
            name: sorted(
                (one for one in sizes if one.on_gpu == on_gpu and one.precision == name), key=lambda one: one.weights
            )
            for name in HALVES
        }
        known = {name: found for name, found in for_precision.items() if found}
        if known:
            told.append(_on_device(known, where))
            told += [_launches(known)] if on_gpu else []
    if not told:
        return "Measure before you switch it on: whether it pays depends on the size and on the device."
    return " ".join(filter(None, told))


def _from_where(found: Sequence[Size]) -> Size | None:
    """The smallest size from which on every one that was tried pays."""
    first = None
    for one in reversed(found):
        if not one.pays:
            break
        first = one
    return first


def _on_device(known: dict[str, list[Size]], where: str) -> str:
    firsts = {name: _from_where(found) for name, found in known.items()}
    same = {one.label for one in firsts.values() if one is not None}
    if len(known) > 1 and len(same) == 1 and None not in firsts.values():
        ratios = [f"{name} {said(one.ratio_cell)}" for name, one in firsts.items() if one is not None]
        first = next(one for one in firsts.values() if one is not None)
        only = all(found[-1].label == first.label for found in known.values())
        how = f"only with {first.shown}" if only else f"from {first.shown} on"
        return f"On {where} both pay {how} ({', '.join(ratios)} times float32's step)."
    parts = [_precision_words(name, found, firsts[name]) for name, found in known.items()]
    return f"On {where} {listed(parts)}."


def _precision_words(name: str, found: Sequence[Size], first: Size | None) -> str:
    last = found[-1]
    if first is None:
        slower = max((one for one in found if one.ratio.low > 1), key=lambda one: one.ratio.value, default=None)
        told = f" ({said(slower.ratio_cell)} times float32's step with {slower.shown})" if slower else ""
        return f"{name} does not clearly pay at the largest size that was tried{told}"
    if first is last:
        return f"{name} pays only with {first.shown} ({said(first.ratio_cell)} times float32's step)"
    return (
        f"{name} pays from {first.shown} on ({said(first.ratio_cell)} times float32's step; {said(last.ratio_cell)}"
        f" with {last.shown})"
    )


def _launches(known: dict[str, list[Size]]) -> str:
    """A sentence on why small models gain nothing on a GPU; empty if their steps do not consist of launches."""
    below = [[one for one in found if not one.pays] for found in known.values()]
    longest = max(below, key=len)
    if len(longest) < 2:
        return ""
    few, many = longest[0], longest[-1]
    if not few.full.number or not many.full.number:
        return ""
    if many.weights < MORE_WEIGHTS * few.weights or many.full.number > NO_MORE_TIME * few.full.number:
        return ""
    return (
        f"Smaller models wait for launches: from {said(number_cell(few.weights))} to {said(number_cell(many.weights))}"
        f" million weights float32's step only goes from {said(few.full, 'ms')} to {said(many.full, 'ms')}, and casts"
        " are more launches."
    )
