"""P7.5: accumulation and mixed precision side by side, against plain float32 DDP."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import inspections_of
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import summarise
from scalewise.course.homework import Question
from scalewise.course.measured_arms import SAME, Point, StepChange, change_between, change_cell, memory_sign, point
from scalewise.course.page_pieces import setting
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    mark_of,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Section, Table
from scalewise.units import listed, with_capital

ORDER = 30
TABLE, GROWING, TOGETHER = "p7-5-comparison", "p7-5-growing", "p7-5-together"
MEMORY = Question(
    "P7.5",
    "Which saves more memory?",
    "Compare the three peaks, and say what each technique keeps in memory that the other does not.",
)
SPEED = Question(
    "P7.5",
    "Which improves speed more?",
    "Use the change of the step of both, and the time per sample where the batch grows.",
)
COMBINED = Question(
    "P7.5",
    "Can the two be combined?",
    "Multiply the two changes, add the two costs, and compare both with Code 3 of homework 2.",
)


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
    total: Estimate | None  # seconds: the base and what each technique adds to it
    code3: Estimate | None  # seconds: as homework 2 measured it


def build(evidence: Evidence) -> Section:
    """Builds the section: the table of the sheet, per sample, both together, answers."""
    found = compared(evidence)
    blocks: list[Block] = [_table(evidence, found), *_growing_table(evidence, found), *_together_table(found)]
    return Section(
        "p7-5", "P7.5 The two compared", (*blocks, _memory(found), _speed(found), _combined(found)), labelled=False
    )


def compared(evidence: Evidence) -> Compared:
    """Returns the data for P7.5."""
    base = point(evidence, "float32 DDP", "amp", precision="float32")
    accumulation = point(evidence, "accumulation", "no-sync", no_sync=1)
    if base.row is not None and base.row.ranks == 1:
        accumulation = point(evidence, "accumulation", "accumulation-one-gpu")
    mixed = point(evidence, "AMP, float16", "amp", precision="float16")
    product = total = None
    steps = [one.row.step_seconds if one.row else None for one in (base, accumulation, mixed)]
    if all(steps) and len({one.row.ranks for one in (base, accumulation, mixed) if one.row}) == 1:
        known = [one for one in steps if one]
        product = propagate(lambda plain, one, two: one * two / plain, *known)
        total = propagate(lambda plain, one, two: one + two - plain, *known)
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
        total,
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
        (text_cell("Memory: peak, MB"), *(one.peak_mb for one in places)),
        (text_cell("Speed: step, ms"), *(one.step for one in places)),
        (
            text_cell("Speed: % more time than float32 DDP"),
            empty_cell("this is the reference"),
            change_cell(found.accumulation_change),
            change_cell(found.mixed_change),
        ),
        (text_cell("Communication in a step"), *(_communication(one) for one in places)),
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


def _communication(one: Point) -> Cell:
    if one.row is None:
        return empty_cell(one.missing)
    if one.row.ranks == 1:
        return empty_cell("one rank has nobody to talk to")
    return text_cell(f"{one.reduces} all-reduces, {said(one.reduced_mb, 'MB')}", mark=mark_of(one.row))


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
    if found.product is None or found.total is None:
        return []
    missing = "homework 2 was not measured beside this suite"
    measured = estimate_cell(found.code3, 1e3, why_empty=missing)
    rows = (
        ("effects multiply: accumulation × AMP / float32 DDP", found.product),
        ("costs add up: accumulation + AMP − float32 DDP", found.total),
    )
    return [
        Table(
            id=TOGETHER,
            title="Both together: predicted from the steps of float32 DDP, accumulation and AMP, and measured",
            columns=(
                Column("If", numeric=False),
                Column("Predicted", "ms"),
                Column("Measured, Code 3 of homework 2", "ms"),
                Column("Measured over predicted"),
            ),
            rows=tuple(
                (
                    text_cell(told),
                    estimate_cell(predicted, 1e3, mark="predicted"),
                    measured,
                    estimate_cell(_ratio(found, predicted), why_empty=missing),
                )
                for told, predicted in rows
            ),
        )
    ]


def _ratio(found: Compared, predicted: Estimate) -> Estimate | None:
    """Code 3 as it was measured over what was predicted for it."""
    return ratio_of(found.code3, predicted) if found.code3 is not None else None


def _memory(found: Compared) -> Answer:
    base, one, two = found.base, found.accumulation, found.mixed
    if base.peak_bytes is None or one.peak_bytes is None or two.peak_bytes is None:
        return MEMORY.without_hint("This cannot be answered: the memory was not seen.", rests_on=(TABLE,))
    cells = (
        f"The peak is {said(base.peak_mb, 'MB')} plain, {said(one.peak_mb, 'MB')} with accumulation, "
        f"{said(two.peak_mb, 'MB')} with mixed precision."
    )
    signs = [memory_sign(base.peak_bytes, each.peak_bytes) for each in (one, two)]
    neither = "less" not in signs
    if neither:
        verdict = "Neither saves memory at this size."
    elif signs == ["less", "less"] and memory_sign(one.peak_bytes, two.peak_bytes) == "same":
        verdict = "Both save the same."
    else:
        verdict = f"{'Accumulation' if one.peak_bytes < two.peak_bytes else 'Mixed precision'} saves more."
    return MEMORY.answer(
        verdict,
        cells,
        (
            "Both make activations smaller: accumulation keeps those of one micro-batch at a time, mixed precision"
            " stores them in 16 bits. Both also add something: a gradient beside the sum it is added to, and a gradient"
            " in 16 bits beside its copy in float32."
        ),
        (
            "They save memory where activations are most of it: a large batch on a narrow model. Here weights are most"
            " of it, and those stay in float32."
            if neither
            else "They save most where activations are most of the memory: a large batch on a narrow model."
        ),
        decided=f"Peaks within {100 * SAME:.0f} % count as the same.",
        rests_on=(TABLE,),
    )


def _speed(found: Compared) -> Answer:
    one, two, between = found.accumulation_change, found.mixed_change, found.between
    rests_on = (TABLE, *([GROWING] if len(found.growing) > 1 else []))
    if one is None or two is None:
        missing = "; ".join(p.missing for p in (found.base, found.accumulation, found.mixed) if p.missing)
        return SPEED.without_hint(
            f"This cannot be answered: {missing or 'they ran on different ranks'}.", rests_on=rests_on
        )
    verdict = _speed_verdict(one, two, between)
    return SPEED.answer(
        verdict,
        f"At the same global batch accumulation takes {one.words()}, mixed precision {two.words()}.",
        _why_speed(one, two),
        _growing_words(found),
        decided=f"Against float32 DDP: accumulation {said_with_interval(one.cell, '%')}, mixed precision "
        f"{said_with_interval(two.cell, '%')}, each against 0.",
        rests_on=rests_on,
    )


def _speed_verdict(accumulation: StepChange, mixed: StepChange, between: StepChange | None) -> str:
    """The verdict on both techniques against plain float32 DDP, by their intervals."""
    named = (("accumulation", accumulation), ("mixed precision", mixed))
    faster = [name for name, change in named if change.verdict == "faster"]
    slower = [name for name, change in named if change.verdict == "slower"]
    if len(slower) == 2:
        return "Neither: both are slower than plain float32 DDP here."
    if not faster and slower:
        return f"Neither: {slower[0]} is slower than plain float32 DDP here, the other not clearly faster or slower."
    if not faster:
        return "Neither shows a gain: both cannot be told from plain float32 DDP here."
    if len(faster) == 1:
        return f"{faster[0].capitalize()}: only this one is faster than plain float32 DDP here."
    if between is not None and between.verdict != "cannot tell":
        better = "Mixed precision" if between.verdict == "faster" else "Accumulation"
        return f"{better}; both are faster than plain DDP."
    return "Both are faster than plain DDP, and cannot be told apart."


def _why_speed(accumulation: StepChange, mixed: StepChange) -> str:
    """The mechanisms, each as far as it agrees with what was seen."""
    pieces = "Cutting one batch into micro-batches sends as many bytes and makes more, smaller calls"
    if accumulation.verdict == "faster":
        told = f"{pieces}; that it was faster in these runs is not explained by this."
    else:
        told = f"{pieces}, so nothing of it can make a step shorter."
    if mixed.verdict == "faster":
        return f"{told} Products in 16 bits are quicker here."
    return f"{told} Mixed precision gains only where products are large and the device is quick in that precision."


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


def _together_words(found: Compared) -> str:
    """A sentence on which of the two predictions agrees with the measured step, by the interval of their ratio."""
    if found.code3 is None or found.product is None or found.total is None:
        return ""
    measured = f" Homework 2 measured {said(estimate_cell(found.code3, 1e3), 'ms')}."
    ratios = {name: ratio_of(found.code3, one) for name, one in (("product", found.product), ("sum", found.total))}
    fits = [name for name, one in ratios.items() if one.low <= 1 <= one.high]
    if fits == ["sum"]:
        return f"{measured} The sum agrees: what each adds to a step is paid once, and they do not multiply."
    if fits == ["product"]:
        return f"{measured} The product agrees: casts and scaling are paid again for every micro-batch."
    if fits:
        return f"{measured} Both agree with it, so these runs do not tell them apart."
    told = listed([f"{said(estimate_cell(one))} times the {name}" for name, one in ratios.items()])
    return (
        f"{measured} Neither agrees: it is {told}. The suites were measured one after the other, and a machine that is"
        " busier in one of them can do that."
    )


def _combined(found: Compared) -> Answer:
    why = (
        "autocast and the scaler work inside each micro-batch; accumulation only decides how many of them there are"
        " before the optimizer steps. So neither changes the other."
    )
    practice = "Scale the loss after dividing it, and step and update the scaler once, after the last micro-batch."
    if found.product is None or found.total is None:
        return COMBINED.without_hint(("Yes", "that is Code 3 of homework 2."), why=with_capital(why), practice=practice)
    multiplied, added = (said(estimate_cell(one, 1e3, mark="predicted"), "ms") for one in (found.product, found.total))
    number = f"If their effects multiply, the step takes {multiplied}, if their costs add up, {added} (both predicted)."
    number += _together_words(found)
    return COMBINED.answer(
        ("Yes", "that is Code 3 of homework 2."),
        number,
        with_capital(why),
        practice,
        decided="Float32 DDP times the two measured ratios, and float32 DDP plus what each adds; a prediction "
        "agrees where the 95 % interval of measured over predicted holds 1.",
        rests_on=(TABLE, TOGETHER),
    )
