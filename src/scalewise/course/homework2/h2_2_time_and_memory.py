"""H2.2: time, memory and stability of the three codes, and of Codes 1 and 3 with more micro-batches."""

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import Stability, stability
from scalewise.analysis.fits import fit_line, spread_of
from scalewise.course.gpus import GpuStep, gpu_steps, known_of, told_source
from scalewise.course.homework2.h2_1_same_training import (
    ACCUMULATION,
    BOTH,
    CODES,
    MEANS,
    NAMES,
    code_point,
    product_precision,
)
from scalewise.course.measured_arms import (
    GIGABYTE,
    MEGABYTE,
    SAME,
    Point,
    StepChange,
    change_between,
    figures_of,
    memory_sign,
    numbers_along,
    point,
    witness_notes,
)
from scalewise.course.page_pieces import cells_series, gpu_rows_heading, setting, why_lr
from scalewise.course.practical7.p7_5_side_by_side import per_sample, sent_per_sample
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, number_cell, said, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, LinePlot, Section, Table

ORDER = 20
CODES_TABLE, ACCUM_TABLE, GROWING_TABLE = "h2-2a-codes", "h2-2b-accumulation", "h2-2b-growing"
TIMES, SAMPLES = "h2-2b-time", "h2-2b-per-sample"
ACCUM_STEPS, GROWING = (4, 8, 16, 32), (1, 2, 4, 8)
ACCUM_CODES = (ACCUMULATION, BOTH)
STABLE = "Stable: finite losses within rounding of Code 1's, almost no step skipped once the scale has settled."
SAME_PEAKS = f"Peaks within {100 * SAME:.0f} % count as the same."
GPU_PEAK = "; in the rows of GPUs the peak of torch's CUDA allocator"


def build(evidence: Evidence) -> Section:
    """Builds the section: the three tables of the sheet with their figures."""
    figures = [one for one in (_times(evidence), _per_sample(evidence)) if one]
    blocks: list[Block] = [codes_table(evidence), accumulation_table(evidence), *_growing_table(evidence), *figures]
    return Section("h2-2", "H2.2 Measurements", tuple(blocks), labelled=False)


def codes_table(evidence: Evidence) -> Table:
    """Returns the table of H2.2a: code, time, memory, stability."""
    points = {code: code_point(evidence, code) for code in CODES}
    steps = [(code, one) for code in CODES for one in gpu_steps(evidence, "codes", (2,), code=code)]
    gpus = [_gpu_cells(code, one) for code, one in steps]
    known = known_of(evidence)
    return Table(
        id=CODES_TABLE,
        title="Time, memory and stability of the three codes",
        columns=(
            Column("Code", numeric=False),
            Column("Products in", numeric=False),
            Column("Ranks"),
            Column("Micro-batches"),
            Column("Time", "s per step"),
            Column("Memory", "GB"),
            Column("Memory", "MB"),
            Column("Training", numeric=False),
            Column("Skipped steps"),
        ),
        rows=(*(_code_cells(evidence, code, points[code]) for code in CODES), *gpus),
        notes=(
            *(f"{one.label}: {one.missing}." for one in points.values() if one.missing),
            *witness_notes((one.peak_witness for one in points.values()), GPU_PEAK if gpus else ""),
            " ".join([STABLE, *why_lr(evidence, "codes")]),
            *([told_source(evidence)] if gpus else []),
        ),
        caption=setting(evidence, "codes", but=("ranks",)),
        groups=(
            (
                (0, "On this machine"),
                (len(CODES), gpu_rows_heading(f"On two {known.device}", [one for _, one in steps], "DIM")),
            )
            if gpus and known
            else ()
        ),
        runs=(*(points[code].run_names for code in CODES), *(() for _ in gpus)),
    )


def code_stability(evidence: Evidence, code: str) -> Stability | None:
    """Returns the stability of a code compared with Code 1's losses; Code 1 itself is compared with none."""
    inspected = evidence.inspection("codes", code=code)
    reference = figures_of(evidence, code_point(evidence, ACCUMULATION).row)
    return stability(
        figures_of(evidence, code_point(evidence, code).row),
        None if code == ACCUMULATION or not reference else reference[0],
        inspected.gradients if inspected else (),
    )


def step_seconds_cell(one: Point) -> Cell:
    """Returns the step in seconds, as the sheet asks."""
    step = one.row.step_seconds if one.row else None
    return estimate_cell(step, mark=one.step.mark, why_empty=one.missing)


def _code_cells(evidence: Evidence, code: str, one: Point) -> tuple[Cell, ...]:
    if one.row is None:
        return text_cell(one.label), *(empty_cell(one.missing) for _ in range(8))
    found = code_stability(evidence, code)
    word = text_cell(found.word, note=found.condition) if found else empty_cell("no run to judge")
    skipped = text_cell(f"{found.skipped_steps} of {found.steps}") if found else empty_cell("no run to judge")
    return (
        text_cell(one.label, mark=one.ranks.mark),
        text_cell(product_precision(one) or "not seen"),
        one.ranks,
        count_cell(round(one.row.micro_batches)) if one.row.micro_batches else empty_cell("not seen"),
        step_seconds_cell(one),
        one.peak_gb,
        one.peak_mb,
        word,
        skipped,
    )


def _gpu_cells(code: str, one: GpuStep) -> tuple[Cell, ...]:
    missing = empty_cell("not recorded there")
    peaks = (number_cell(one.peak_bytes, 1 / unit, mark=one.mark) for unit in (GIGABYTE, MEGABYTE))
    return (
        text_cell(f"{NAMES[code]}: {MEANS[code]}", mark=one.mark),
        text_cell("float32" if code == ACCUMULATION else one.env.get("PRECISION", "float16"), mark=one.mark),
        count_cell(one.ranks, mark=one.mark),
        count_cell(one.micro_batches, mark=one.mark) if one.micro_batches else missing,
        estimate_cell(one.step, mark=one.mark, note=one.source),
        *(peaks if one.peak_bytes else (missing, missing)),
        missing,
        missing,
    )


def accumulation_points(evidence: Evidence, code: str) -> dict[int, Point]:
    """Returns the points by ACCUM_STEPS, at the same global batch."""
    values = numbers_along(evidence, "accumulation", "accum", ACCUM_STEPS)
    return {accum: point(evidence, NAMES[code], "accumulation", code=code, accum=accum) for accum in values}


def growing_points(evidence: Evidence) -> dict[int, Point]:
    """Returns the measured points by ACCUM_STEPS, with micro-batches of one size."""
    values = numbers_along(evidence, "growing", "accum", GROWING)
    found = {accum: point(evidence, NAMES[ACCUMULATION], "growing", accum=accum) for accum in values}
    return {accum: one for accum, one in found.items() if one.row}


def accumulation_table(evidence: Evidence) -> Table:
    """H2.2b: code, ACCUM_STEPS, time, memory, observations."""
    rows, runs, missing, witnesses = [], [], [], []
    for code in ACCUM_CODES:
        points = accumulation_points(evidence, code)
        first = next(iter(points.values()))
        for accum, one in points.items():
            change = None if one is first else change_between(evidence, first, one)
            rows.append(_accumulation_cells(accum, one, first, change))
            runs.append(one.run_names)
            witnesses.append(one.peak_witness)
            missing += [f"{one.label}, ACCUM_STEPS {accum}: {one.missing}."] if one.missing else []
    slopes = [slope_sentence(evidence, code) for code in ACCUM_CODES]
    return Table(
        id=ACCUM_TABLE,
        title="More micro-batches of the same global batch",
        columns=(
            Column("Code", numeric=False),
            Column("ACCUM_STEPS"),
            Column("Ranks"),
            Column("Samples of a micro-batch"),
            Column("Time", "s per step"),
            Column("Memory", "GB"),
            Column("Memory", "MB"),
            Column("Observation", numeric=False),
        ),
        rows=tuple(rows),
        notes=(
            *missing,
            " ".join([*witness_notes(witnesses), SAME_PEAKS]),
            *([" ".join(filter(None, slopes))] if any(slopes) else []),
        ),
        caption=setting(evidence, "accumulation", but=("ranks", "ACCUM_STEPS", "LR")),
        runs=tuple(runs),
    )


def micro_batch(one: Point) -> int | None:
    """Returns the samples of one forward pass on one rank, or None."""
    row = one.row
    if row is None or row.samples_per_step is None or not row.micro_batches:
        return None
    return round(row.samples_per_step / row.ranks / row.micro_batches)


def _accumulation_cells(accum: int, one: Point, first: Point, change: StepChange | None) -> tuple[Cell, ...]:
    names = (text_cell(one.label, mark=one.ranks.mark), count_cell(accum))
    if one.row is None:
        return *names, *(empty_cell(one.missing) for _ in range(6))
    return (
        *names,
        one.ranks,
        count_cell(micro_batch(one)),
        step_seconds_cell(one),
        one.peak_gb,
        one.peak_mb,
        text_cell(_observation(one, first, change)),
    )


def _observation(one: Point, first: Point, change: StepChange | None) -> str:
    if one is first:
        return "base of the comparison"
    if change is None:
        return "not compared: other ranks or another batch"
    time = f"{change.words()} than the first" if change.verdict != "cannot tell" else "no clear change in time"
    if one.peak_bytes is None or first.peak_bytes is None or one.peak_witness != first.peak_witness:
        return time
    sign = memory_sign(first.peak_bytes, one.peak_bytes)
    return f"{time}; {'as much' if sign == 'same' else sign} memory"


def slope_sentence(evidence: Evidence, code: str) -> str:
    """Returns what one more micro-batch costs at the same global batch; empty if no line can be fitted."""
    found = slope(evidence, code)
    if found is None:
        return ""
    cell = slope_cell(found)
    if found.low > 0:
        return f"{NAMES[code]}: a further micro-batch costs {said(cell, 'ms')} {cell.interval}."
    return (
        f"{NAMES[code]}: whether a further micro-batch costs time cannot be told ({said(cell, 'ms')} {cell.interval})."
    )


def slope(evidence: Evidence, code: str) -> Estimate | None:
    """Returns the seconds for one more micro-batch: the slope of the step over ACCUM_STEPS."""
    points = accumulation_points(evidence, code)
    known = {accum: one.row.step_seconds for accum, one in points.items() if one.row and one.row.step_seconds}
    times = list(known.values())
    line = fit_line(list(known), [one.value for one in times], spread_of(times)) if len(known) > 2 else None
    return line.slope if line else None


def slope_cell(found: Estimate) -> Cell:
    """Returns the slope in milliseconds."""
    return estimate_cell(found, 1e3)


def _growing_table(evidence: Evidence) -> list[Table]:
    points = growing_points(evidence)
    if not points:
        return []
    return [
        Table(
            id=GROWING_TABLE,
            title="Micro-batches of one size: the effective batch grows (Code 1)",
            columns=(
                Column("ACCUM_STEPS"),
                Column("Ranks"),
                Column("Effective batch"),
                Column("Time", "s per step"),
                Column("Time per sample", "us"),
                Column("Sent per sample", "kB"),
                Column("Memory", "MB"),
            ),
            rows=tuple(_growing_cells(accum, one) for accum, one in points.items()),
            notes=witness_notes(one.peak_witness for one in points.values()),
            caption=setting(evidence, "growing", but=("ranks", "ACCUM_STEPS")),
            runs=tuple(one.run_names for one in points.values()),
        )
    ]


def _growing_cells(accum: int, one: Point) -> tuple[Cell, ...]:
    samples = one.row.samples_per_step if one.row else None
    batch = count_cell(round(samples)) if samples else empty_cell("not seen")
    return (
        count_cell(accum, mark=one.ranks.mark),
        one.ranks,
        batch,
        step_seconds_cell(one),
        per_sample(one),
        sent_per_sample(one),
        one.peak_mb,
    )


def _times(evidence: Evidence) -> Figure | None:
    series = [
        one
        for code in ACCUM_CODES
        if (one := cells_series(NAMES[code], [(a, p.step) for a, p in accumulation_points(evidence, code).items()]))
    ]
    if not series:
        return None
    plot = LinePlot(
        "ACCUM_STEPS", "time per step (ms)", tuple(series), log_x=True, x_ticks=tuple(map(float, ACCUM_STEPS))
    )
    return Figure(TIMES, "The same batch in more pieces", "Whiskers are 95 % intervals.", plot)


def _per_sample(evidence: Evidence) -> Figure | None:
    points = growing_points(evidence)
    series = cells_series("Code 1", [(accum, per_sample(one)) for accum, one in points.items()])
    if series is None:
        return None
    plot = LinePlot("ACCUM_STEPS", "time per sample (us)", (series,), log_x=True, x_ticks=tuple(map(float, points)))
    return Figure(SAMPLES, "A batch that grows with ACCUM_STEPS", "Whiskers are 95 % intervals.", plot)
