"""P7.5: accumulation and mixed precision side by side, against plain float32 DDP."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspection import inspections_of
from scalewise.analysis.propagate import propagate
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import summarise
from scalewise.course.captions import setting
from scalewise.course.measured import Point, StepChange, change_between, change_cell, point
from scalewise.records.folder import SuiteFolder
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Section, Table
from scalewise.results.load import load

ORDER = 30
ROW, TABLE, GROWING, TOGETHER = "P7.5", "p7-5-comparison", "p7-5-growing", "p7-5-together"
MEMORY = "Which saves more memory?"
SPEED = "Which improves speed more?"
COMBINED = "Can the two be combined?"
SAME = 0.01  # share of a peak: a smaller difference is not mentioned


@dataclass(frozen=True)
class Compared:
    """The data for P7.5: both techniques against plain float32 DDP with the same global batch."""

    base: Point
    accumulation: Point
    mixed: Point
    accumulation_change: StepChange | None  # change of the step against the base
    mixed_change: StepChange | None
    between: StepChange | None  # mixed precision against accumulation
    growing: tuple[tuple[int, Point], ...]  # ACCUM_STEPS, and the point with micro-batches of a fixed size
    product: Estimate | None  # seconds: the base times both ratios
    code3: Estimate | None  # seconds: as homework 2 measured it


def build(evidence: Evidence) -> Section:
    """Builds the section: the table of the sheet, per sample, both together, answers."""
    found = compared(evidence)
    blocks: list[Block] = [_table(evidence, found), *_growing_table(evidence, found), *_together_table(found)]
    return Section("p7-5", "P7.5 The two compared", (*blocks, _memory(found), _speed(found), _combined(found)))


def compared(evidence: Evidence) -> Compared:
    """Returns the data for P7.5."""
    base = point(evidence, "float32 DDP", "amp", precision="float32")
    accumulation = point(evidence, "accumulation", "no-sync", no_sync=1)
    if base.row is not None and base.row.ranks == 1:
        accumulation = point(evidence, "accumulation", "accumulation-one-gpu")
    mixed = point(evidence, "AMP, float16", "amp", precision="float16")
    product = None
    steps = [one.row.step_seconds if one.row else None for one in (base, accumulation, mixed)]
    if all(steps) and len({one.row.ranks for one in (base, accumulation, mixed) if one.row}) == 1:
        product = propagate(lambda plain, one, two: one * two / plain, *[one for one in steps if one])
    growing = [(accum, point(evidence, f"{accum}", "growing", accum=accum)) for accum in (1, 4)]
    return Compared(
        base,
        accumulation,
        mixed,
        change_between(evidence, base, accumulation),
        change_between(evidence, base, mixed),
        change_between(evidence, accumulation, mixed),
        tuple((accum, one) for accum, one in growing if one.row),
        product,
        _code3(evidence, base),
    )


def _code3(evidence: Evidence, base: Point) -> Estimate | None:
    """Returns Code 3's step if homework 2 was measured beside this suite, with the same model and as many ranks."""
    beside = evidence.loaded.path.parent
    if base.row is None or not beside.is_dir():
        return None
    for folder in sorted(beside.glob("homework2-*"), key=_changed, reverse=True):
        if not SuiteFolder(folder).runs():
            continue
        loaded = load(folder)
        other = Evidence(loaded, summarise(loaded), inspections_of(loaded.runs), None)
        code3 = point(other, "Code 3", "codes", code="practical5_single")
        own, same = _model(evidence, base), _model(other, code3)
        if code3.row is not None and own is not None and own == same and code3.row.ranks == base.row.ranks:
            return code3.row.step_seconds
    return None


def _changed(folder: Path) -> float:
    return folder.stat().st_mtime


def _model(evidence: Evidence, one: Point) -> tuple[str | None, ...] | None:
    run = evidence.run(one.run_names[0]) if one.run_names else None
    return tuple(run.spec.env.get(name) for name in ("DIM", "DEPTH", "BATCH")) if run else None


def _table(evidence: Evidence, found: Compared) -> Table:
    places = (found.base, found.accumulation, found.mixed)
    goals = ("the reference", "a larger batch in the memory of a small one, and fewer messages", "cheaper arithmetic")
    rows: tuple[tuple[Cell, ...], ...] = (
        (text_cell("Goal"), *(text_cell(goal) for goal in goals)),
        (text_cell("Ranks"), *(one.ranks for one in places)),
        (text_cell("Memory: peak, MB"), *(one.peak_mb for one in places)),
        (text_cell("Speed: step, ms"), *(one.step for one in places)),
        (
            text_cell("Speed: against float32 DDP, %"),
            empty_cell("this is the reference"),
            change_cell(found.accumulation_change),
            change_cell(found.mixed_change),
        ),
        (text_cell("Communication: all-reduces in a step"), *(_reduces(one) for one in places)),
        (text_cell("Communication: MB in a step"), *(one.reduced_mb for one in places)),
    )
    missing = [f"{one.label}: {one.missing}." for one in places if one.missing]
    return Table(
        id=TABLE,
        title="Goal and effects, at the same global batch",
        columns=(
            Column("", numeric=False),
            Column("float32 DDP", numeric=False),
            Column("Accumulation (Code 1)", numeric=False),
            Column("AMP, float16 (Code 2)", numeric=False),
        ),
        rows=rows,
        notes=(
            (
                *missing,
                "Accumulation cuts this batch into four micro-batches; the next table lets the batch grow instead.",
            )
            if found.growing
            else tuple(missing)
        ),
        caption=setting(evidence, "amp"),
    )


def _reduces(one: Point) -> Cell:
    return count_cell(one.reduces) if one.row else empty_cell(one.missing)


def _growing_table(evidence: Evidence, found: Compared) -> list[Table]:
    if len(found.growing) < 2:
        return []
    return [
        Table(
            id=GROWING,
            title="Micro-batches of one size: what a sample costs",
            columns=(
                Column("ACCUM_STEPS"),
                Column("Ranks"),
                Column("Effective batch"),
                Column("Step", "ms"),
                Column("Time per sample", "us"),
                Column("Sent per sample", "kB"),
            ),
            rows=tuple(_growing_cells(accum, one) for accum, one in found.growing),
            caption=setting(evidence, "growing", but=("ranks", "ACCUM_STEPS")),
            runs=tuple(one.run_names for _, one in found.growing),
        )
    ]


def _growing_cells(accum: int, one: Point) -> tuple[Cell, ...]:
    samples = one.row.samples_per_step if one.row else None
    batch = count_cell(round(samples)) if samples else empty_cell("not seen")
    return count_cell(accum, mark=one.ranks.mark), one.ranks, batch, one.step, per_sample(one), sent_per_sample(one)


def per_sample(one: Point) -> Cell:
    """Returns the step over its samples, in microseconds."""
    samples = one.row.samples_per_step if one.row else None
    step = one.row.step_seconds if one.row else None
    if not samples or step is None:
        return empty_cell(one.missing or "not seen")
    return estimate_cell(propagate(lambda seconds: seconds / samples, step), 1e6, mark=one.step.mark)


def sent_per_sample(one: Point) -> Cell:
    """Returns what a rank averages for each sample of the step, in kilobytes."""
    samples = one.row.samples_per_step if one.row else None
    return number_cell(one.reduced_bytes / samples / 1e3 if samples else None, why_empty=one.missing or "not seen")


def _together_table(found: Compared) -> list[Table]:
    if found.product is None:
        return []
    ratio = ratio_of(found.code3, found.product) if found.code3 is not None else None
    return [
        Table(
            id=TOGETHER,
            title="Both together: predicted from the two effects, and measured",
            columns=(
                Column("Predicted", "ms"),
                Column("Measured, Code 3 of homework 2", "ms"),
                Column("Measured over predicted"),
            ),
            rows=(
                (
                    estimate_cell(found.product, 1e3, mark="predicted"),
                    estimate_cell(found.code3, 1e3, why_empty="homework 2 was not measured beside this suite"),
                    estimate_cell(ratio, why_empty="homework 2 was not measured beside this suite"),
                ),
            ),
            notes=(
                "Predicted: the step of float32 DDP times the ratio of each technique, as if their effects multiplied.",
            ),
        )
    ]


def _memory(found: Compared) -> Answer:
    base, one, two = found.base, found.accumulation, found.mixed
    if base.peak_bytes is None or one.peak_bytes is None or two.peak_bytes is None:
        return Answer(ROW, MEMORY, "This cannot be answered: the memory was not seen.", rests_on=(TABLE,))
    cells = (
        f"The peak is {said(base.peak_mb, 'MB')} plain, {said(one.peak_mb, 'MB')} with accumulation, "
        f"{said(two.peak_mb, 'MB')} with mixed precision."
    )
    least = min(one.peak_bytes, two.peak_bytes)
    if least >= base.peak_bytes * (1 - SAME):
        verdict = "Neither saves memory at this size."
    elif abs(one.peak_bytes - two.peak_bytes) <= SAME * base.peak_bytes:
        verdict = "Both save the same."
    else:
        verdict = f"{'Accumulation' if one.peak_bytes < two.peak_bytes else 'Mixed precision'} saves more."
    return Answer(
        ROW,
        MEMORY,
        verdict=verdict,
        number=cells,
        why=(
            "Both make activations smaller: accumulation keeps those of one micro-batch at a time, mixed precision"
            " stores them in 16 bits. Both also add something: a gradient beside the sum it is added to, and 16-bit"
            " copies of the weights."
        ),
        practice=(
            "They save memory where activations are most of it: a large batch on a narrow model. Here weights are most"
            " of it, and those stay in float32."
            if verdict.startswith("Neither")
            else "They save most where activations are most of the memory: a large batch on a narrow model."
        ),
        decided=f"Peaks within {100 * SAME:.0f} % count as the same.",
        rests_on=(TABLE,),
        hint="Compare the three peaks, and say what each technique keeps in memory that the other does not.",
    )


def _speed(found: Compared) -> Answer:
    one, two, between = found.accumulation_change, found.mixed_change, found.between
    rests_on = (TABLE, *([GROWING] if len(found.growing) > 1 else []))
    if one is None or two is None:
        missing = "; ".join(p.missing for p in (found.base, found.accumulation, found.mixed) if p.missing)
        return Answer(
            ROW, SPEED, f"This cannot be answered: {missing or 'they ran on different ranks'}.", rests_on=rests_on
        )
    faster = [name for name, change in (("accumulation", one), ("mixed precision", two)) if change.verdict == "faster"]
    if not faster:
        verdict = "Neither: plain float32 DDP is not slower than either of them here."
    elif len(faster) == 1:
        verdict = f"{faster[0].capitalize()}: only this one is faster than plain float32 DDP here."
    elif between is not None and between.verdict != "cannot tell":
        verdict = (
            f"{'Mixed precision' if between.verdict == 'faster' else 'Accumulation'}; both are faster than plain DDP."
        )
    else:
        verdict = "Both are faster than plain DDP, and cannot be told apart."
    return Answer(
        ROW,
        SPEED,
        verdict=verdict,
        number=f"At the same global batch accumulation takes {one.words()}, mixed precision {two.words()}.",
        why=(
            "Cutting one batch into micro-batches sends as many bytes and makes more, smaller calls, so it cannot be"
            " faster. Mixed precision is faster only where products are large."
        ),
        practice=_growing_words(found),
        decided=(
            f"Against float32 DDP: accumulation {said_with_interval(one.cell, '%')}, mixed precision "
            f"{said_with_interval(two.cell, '%')}, each against 0."
        ),
        rests_on=rests_on,
        hint="Use the change of the step of both, and the time per sample where the batch grows.",
    )


def _growing_words(found: Compared) -> str:
    if len(found.growing) < 2:
        return "Accumulation is for a larger batch, which then sends less for each sample."
    (_, first), (accum, last) = found.growing[0], found.growing[-1]
    times = f"{said(per_sample(first), 'us')} to {said(per_sample(last), 'us')}"
    a, b = per_sample(first).number, per_sample(last).number
    falls = a is not None and b is not None and b < a
    return (
        f"Accumulation is for a larger batch: with {accum} micro-batches of one size, a sample sends "
        f"{said(sent_per_sample(last), 'kB')} instead of {said(sent_per_sample(first), 'kB')}, and its time "
        f"{'falls' if falls else 'goes'} from {times}."
    )


def _product_words(found: Compared) -> str:
    """Returns how the measured step differs from the product; empty if they agree within their interval."""
    if found.code3 is None or found.product is None:
        return ""
    ratio = ratio_of(found.code3, found.product)
    told = f" That is {said(estimate_cell(ratio))} times the product"
    if ratio.high < 1:
        return f"{told}: what each technique adds to a step is paid once, so their costs add up and do not multiply."
    if ratio.low > 1:
        return f"{told}: casts and scaling are paid again for every micro-batch."
    return ""


def _combined(found: Compared) -> Answer:
    why = (
        "autocast and the scaler work inside each micro-batch; accumulation only decides how many of them there are"
        " before the optimizer steps. So neither changes the other."
    )
    practice = "Scale the loss after dividing it, and step and update the scaler once, after the last micro-batch."
    if found.product is None:
        return Answer(
            ROW, COMBINED, "Yes: that is Code 3 of homework 2.", why=f"{why[0].upper()}{why[1:]}", practice=practice
        )
    predicted = estimate_cell(found.product, 1e3)
    number = f"If their effects multiply, the step takes {said(predicted, 'ms')} (predicted)."
    if found.code3 is not None:
        number += f" Homework 2 measured {said(estimate_cell(found.code3, 1e3), 'ms')}.{_product_words(found)}"
    return Answer(
        ROW,
        COMBINED,
        verdict="Yes: that is Code 3 of homework 2.",
        number=number,
        why=f"{why[0].upper()}{why[1:]}",
        practice=practice,
        decided="The product of the two measured ratios and the step of float32 DDP.",
        rests_on=(TABLE, TOGETHER),
        hint="Multiply the two changes, and compare with Code 3 of homework 2.",
    )
