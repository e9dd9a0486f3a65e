"""H2.3: what causes the codes' differences in time and memory, and how accumulation changes the effective batch."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework import Question
from scalewise.course.homework2.h2_1_same_training import (
    ACCUMULATION,
    BFLOAT,
    BOTH,
    CODES,
    MIXED,
    NAMES,
    PLAIN,
    REMOVED,
    beside_point,
    code_point,
    product_precision,
)
from scalewise.course.homework2.h2_2_time_and_memory import (
    ACCUM_TABLE,
    GROWING_TABLE,
    SAMPLES,
    accumulation_points,
    growing_points,
    micro_batch,
    slope,
    slope_cell,
)
from scalewise.course.homework2.memory_answer import memory_blocks
from scalewise.course.measured_arms import Point, StepChange, change_between, change_cell, contrast
from scalewise.course.page_pieces import setting
from scalewise.course.practical7.p7_1_no_sync import first_gradient
from scalewise.course.practical7.p7_5_side_by_side import per_sample, sent_per_sample
from scalewise.records.inspection import GradientRow
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, BarPlot, Block, Cell, Column, Figure, Formula, Part, Section, Table
from scalewise.units import listed

ORDER = 30
TIME_TABLE, BATCH_TABLE = "h2-3-time", "h2-3-batch"
ANATOMY = "h2-3-anatomy"
TIME = Question(
    "H2.3",
    "Where do the differences in time come from: synchronisation or precision?",
    "Compare the steps without communication for precision, and the bytes for synchronisation.",
)
BATCH = Question(
    "H2.3",
    "How does accumulation change the effective batch size, and why is the loss divided?",
    "Write the effective batch as a product for one row, and compare the first gradients of the rows with one batch.",
)
SAME_GRADIENT = 1e-4  # relative: sums in another order differ by 1e-6 in float32, another batch by far more
FORMULA = Formula(
    'B_"effective" = "micro-batch" times "ACCUM_STEPS" times "ranks"',
    "effective batch = micro-batch x ACCUM_STEPS x ranks",
    "<msub><mi>B</mi><mtext>effective</mtext></msub><mo>=</mo><mtext>micro-batch</mtext><mo>×</mo>"
    "<mtext>ACCUM_STEPS</mtext><mo>×</mo><mtext>ranks</mtext>",
)


@dataclass(frozen=True)
class Split:
    """One row's step, with and without its communication."""

    name: str
    whole: Point
    silent: Point  # nothing is sent
    sending: Cell  # what communication adds, in milliseconds

    @property
    def computing(self) -> Point:
        """The step without communication; on one rank, the step itself."""
        return self.whole if self.whole.row is not None and self.whole.row.ranks == 1 else self.silent

    @property
    def optimizer_ms(self) -> float | None:
        """The time of optimizer and scaler in the step without communication."""
        row = self.computing.row
        seconds = row.phase_seconds.get("optimizer") if row else None
        return None if seconds is None else 1e3 * seconds


@dataclass(frozen=True)
class Splits:
    """Float32 DDP, the three codes, and Code 3 in bfloat16; the first and the last where they were measured."""

    plain: Split
    codes: dict[str, Split]
    bfloat: Split

    @property
    def rows(self) -> tuple[Split, ...]:
        """The rows of the table."""
        beside = [one for one in (self.plain,) if one.whole.row]
        return (*beside, *self.codes.values(), *([self.bfloat] if self.bfloat.whole.row else []))


def build(evidence: Evidence) -> Section:
    """Three tables and the three answers."""
    splits = _splits(evidence)
    anatomy = _anatomy(splits)
    blocks: list[Block] = [_time_table(evidence, splits), *([anatomy] if anatomy else []), _time(evidence, splits)]
    blocks += memory_blocks(evidence)
    blocks += [_batch_table(evidence), FORMULA, _batch(evidence)]
    return Section("h2-3", "H2.3 Why they differ", tuple(blocks), labelled=False)


def _splits(evidence: Evidence) -> Splits:
    codes = {
        code: _split(evidence, NAMES[code], code_point(evidence, code), code_point(evidence, code, REMOVED))
        for code in CODES
    }
    plain, bfloat = (
        _split(evidence, name, beside_point(evidence, experiment), beside_point(evidence, experiment, REMOVED))
        for experiment, name in ((PLAIN, "float32 DDP"), (BFLOAT, "Code 3"))
    )
    return Splits(plain, codes, bfloat)


def _split(evidence: Evidence, name: str, whole: Point, silent: Point) -> Split:
    if whole.row is not None and whole.row.ranks == 1:
        return Split(name, whole, silent, empty_cell("one rank has nobody to talk to"))
    found = contrast(evidence, silent.row, whole.row)
    if found is None:
        return Split(name, whole, silent, empty_cell("not measured with and without communication"))
    return Split(name, whole, silent, estimate_cell(found.seconds, 1e3))


def _time_table(evidence: Evidence, splits: Splits) -> Table:
    first = splits.codes[ACCUMULATION]
    return Table(
        id=TIME_TABLE,
        title="The step with and without its communication",
        columns=(
            Column("Code", numeric=False),
            Column("Products in", numeric=False),
            Column("Ranks"),
            Column("Step", "ms"),
            Column("Without communication", "ms"),
            Column("Of it optimizer and scaler", "ms"),
            Column("Communication adds", "ms"),
            Column("Without it, against Code 1", "% more time"),
            Column("Reduced", "MB per step"),
        ),
        rows=tuple(_time_cells(evidence, one, first) for one in splits.rows),
        notes=(_silent_note(evidence, splits),),
        caption=setting(evidence, "codes", PLAIN, BFLOAT, but=("ranks", "LR")),
        runs=tuple((*one.whole.run_names, *one.silent.run_names) for one in splits.rows),
    )


def _silent_note(evidence: Evidence, splits: Splits) -> str:
    """A note on what the step without communication is, with the comparisons of it that have no row."""
    told = [f"{name} {said_with_interval(change.cell, '%')}" for name, change in _changes(evidence, splits)[1:]]
    note = "Without communication: the same run, with every all-reduce left out."
    return f"{note} There, in time: {'; '.join(told)}." if told else note


def _computing_change(evidence: Evidence, one: Split, other: Split) -> StepChange | None:
    """The change of the step without communication; on one rank, of the step itself."""
    return change_between(evidence, one.computing, other.computing)


def _changes(evidence: Evidence, splits: Splits) -> list[tuple[str, StepChange]]:
    """Returns the measured changes that the answer about time rests on, each with its name."""
    one, two, three = (splits.codes[code] for code in (ACCUMULATION, MIXED, BOTH))
    pairs = (
        ("Code 3 against Code 1", one, three),
        ("Code 2 against Code 3", three, two),
        ("Code 3 in float16 against bfloat16", splits.bfloat, three),
    )
    found = [(told, _computing_change(evidence, a, b)) for told, a, b in pairs]
    return [(told, change) for told, change in found if change]


def _time_cells(evidence: Evidence, one: Split, first: Split) -> tuple[Cell, ...]:
    name = text_cell(one.name, mark=one.whole.ranks.mark)
    if one.whole.row is None:
        return name, *(empty_cell(one.whole.missing) for _ in range(8))
    change = _computing_change(evidence, first, one) if one is not first else None
    silent = one.silent.step if one.whole.row.ranks > 1 else empty_cell("one rank sends nothing to others")
    against = change_cell(change, "Code 1 is the base" if one is first else "not the same work")
    return (
        name,
        text_cell(product_precision(one.whole) or "not seen"),
        one.whole.ranks,
        one.whole.step,
        silent,
        number_cell(one.optimizer_ms, why_empty="not seen"),
        one.sending,
        against,
        one.whole.reduced_mb,
    )


def _anatomy(splits: Splits) -> Figure | None:
    known = [one for one in splits.rows if one.whole.row is not None and one.whole.step.number is not None]
    if not known:
        return None
    sending = [max(one.sending.number or 0.0, 0.0) for one in known]
    steps = [one.whole.step.number or 0.0 for one in known]
    parts = [Part("computing", tuple(step - sent for step, sent in zip(steps, sending, strict=True)))]
    if any(sending):
        parts.append(Part("communication adds", tuple(sending)))
    lows = tuple(one.whole.step.low or step for one, step in zip(known, steps, strict=True))
    highs = tuple(one.whole.step.high or step for one, step in zip(known, steps, strict=True))
    names = [f"{one.name}, bfloat16" if one is splits.bfloat else one.name for one in known]
    plot = BarPlot(tuple(names), tuple(parts), "time per step (ms)", lows, highs)
    return Figure(ANATOMY, "The step in two parts", "Lines: 95 % interval of the step.", plot)


def _time(evidence: Evidence, splits: Splits) -> Answer:
    rests_on = (TIME_TABLE, *([ANATOMY] if any(one.whole.row for one in splits.rows) else []))
    one, two, three = (splits.codes[code] for code in (ACCUMULATION, MIXED, BOTH))
    precision = _computing_change(evidence, one, three)
    pieces = _computing_change(evidence, three, two)
    if precision is None or one.whole.row is None or three.whole.row is None:
        missing = "; ".join(
            s.whole.missing or s.silent.missing for s in splits.codes.values() if s.whole.missing or s.silent.missing
        )
        return TIME.without_hint(
            f"This cannot be answered: {missing or 'the codes ran on different ranks'}.", rests_on=rests_on
        )
    alone = one.whole.row.ranks == 1
    steps = listed([f"{s.name} takes {said(s.whole.step, 'ms')}" for s in splits.codes.values() if s.whole.row])
    verdict, why = _precision_words(evidence, splits, precision)
    if pieces is not None and pieces.verdict == "faster" and precision.verdict == "cannot tell":
        verdict = "From the number of micro-batches: Code 2 computes its batch in one piece."
    if alone:
        number = f"{steps}. Code 3 takes {precision.words()} than Code 1 in the step."
    else:
        number = f"{steps}. Without communication Code 3 takes {precision.words()} than Code 1."
    if pieces is not None and pieces.verdict == "faster":
        there = "" if alone else "There "
        number += f" {there}Code 2, which computes its batch in one piece, takes {pieces.words()} than Code 3."
    return TIME.answer(
        verdict,
        number,
        f"{_sync_words(splits, one.whole.row)} {why}",
        "AMP pays for large products on a device with fast 16-bit units; practical 7 shows from which size on.",
        decided="; ".join(
            f"{told}: {said_with_interval(change.cell, '%')}, against 0" for told, change in _changes(evidence, splits)
        ),
        rests_on=rests_on,
    )


def _sync_words(splits: Splits, row: ArmRow) -> str:
    if row.ranks == 1:
        return "One rank has no other to synchronise with."
    if len({one.whole.reduced_bytes for one in splits.codes.values() if one.whole.row}) > 1:
        return "They also send different amounts in a step."
    return (
        "Synchronisation does not tell them apart: each averages"
        f" {said(splits.codes[ACCUMULATION].whole.reduced_mb, 'MB')} once in a step, because gradients stay float32"
        " under autocast."
    )


def _precision_words(evidence: Evidence, splits: Splits, change: StepChange) -> tuple[str, str]:
    """The verdict, and what of the lower precision makes the difference."""
    one, three = splits.codes[ACCUMULATION], splits.codes[BOTH]
    half = product_precision(three.whole) or "16 bits"
    if change.verdict == "cannot tell":
        why = f"Without communication Code 3 ({half}) differs less from Code 1 (float32) than their steps vary."
        return "From neither, as far as these runs show.", why
    if change.verdict == "faster":
        verdict = "From precision: 16-bit products save more than the casts and the scaler cost."
        return verdict, f"Products of {half} numbers are quicker on this device."
    if one.whole.row is not None and one.whole.row.device == "cuda":
        return (
            "From precision, but against the sheet: here the casts and the scaler of AMP cost more than 16-bit products"
            " save.",
            "The model is so small that the GPU waits for Python to launch its kernels; every cast and the scaler's "
            "check are more launches.",
        )
    return _slow_on_cpu(evidence, splits, half)


def _slow_on_cpu(evidence: Evidence, splits: Splits, half: str) -> tuple[str, str]:
    """Casts, products or the scaler: bfloat16 has the same casts, and the scaler works in the optimizer's phase."""
    verdict = f"From precision, but against the sheet: in {half} the layers take longer here than in float32."
    three = splits.codes[BOTH]
    spent = number_cell(three.optimizer_ms)
    scaler = f" Optimizer and scaler take {said(spent, 'ms')} of the step." if three.optimizer_ms is not None else ""
    to_bfloat = _computing_change(evidence, splits.codes[ACCUMULATION], splits.bfloat)
    from_bfloat = _computing_change(evidence, splits.bfloat, three)
    if half != "float16" or to_bfloat is None or from_bfloat is None:
        return verdict, f"The time is spent in forward and backward, on casts and on products.{scaler}"
    casts = (
        "does not differ clearly from Code 1"
        if to_bfloat.verdict == "cannot tell"
        else f"takes {to_bfloat.words()} than Code 1"
    )
    if from_bfloat.verdict == "slower":
        verdict = "From precision, but against the sheet: float16 products are slow on this CPU."
        return verdict, (
            f"It is not the casts: Code 3 in bfloat16 makes the same ones and {casts}, but in float16 it takes"
            f" {from_bfloat.words()} than in bfloat16. PyTorch has no fast float16 product for this CPU.{scaler}"
        )
    return verdict, f"It is not float16 alone: Code 3 in bfloat16 makes the same casts and {casts}.{scaler}"


def _batch_table(evidence: Evidence) -> Table:
    same, growing = accumulation_points(evidence, ACCUMULATION), growing_points(evidence)
    rows = [*_batch_rows("batch fixed", same, evidence), *_batch_rows("micro-batch fixed", growing, None)]
    return Table(
        id=BATCH_TABLE,
        title="The effective batch of Code 1, as it was seen",
        columns=(
            Column("", numeric=False),
            Column("ACCUM_STEPS"),
            Column("Samples of a micro-batch"),
            Column("Ranks"),
            Column("Effective batch"),
            Column("First gradient", "norm"),
        ),
        rows=tuple(rows),
        notes=("Samples and micro-batches were counted in the runs, not taken from the settings.",),
        caption=setting(evidence, "accumulation", "growing", but=("ranks", "ACCUM_STEPS", "BATCH"), bracket=False),
    )


def _batch_rows(label: str, points: dict[int, Point], evidence: Evidence | None) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for accum, one in points.items():
        if one.row is None or one.row.samples_per_step is None:
            continue
        gradient = _gradient(evidence, accum) if evidence else None
        norm = number_cell(gradient.norm if gradient else None, why_empty="its gradients were not looked at")
        batch = count_cell(round(one.row.samples_per_step))
        rows.append(
            (
                text_cell(label, mark=one.ranks.mark),
                count_cell(accum),
                count_cell(micro_batch(one)),
                one.ranks,
                batch,
                norm,
            )
        )
    return rows


def _gradient(evidence: Evidence, accum: int) -> GradientRow | None:
    return first_gradient(evidence.inspection("accumulation", code=ACCUMULATION, accum=accum))


def _batch(evidence: Evidence) -> Answer:
    same = {a: one for a, one in accumulation_points(evidence, ACCUMULATION).items() if one.row and micro_batch(one)}
    growing = growing_points(evidence)
    rests_on = (BATCH_TABLE, ACCUM_TABLE, *([GROWING_TABLE, SAMPLES] if growing else []))
    if not same and not growing:
        return BATCH.without_hint("This cannot be answered: no run of Code 1 was counted.", rests_on=rests_on)
    return BATCH.answer(
        "It multiplies it: the effective batch is micro-batch × ACCUM_STEPS × ranks.",
        _batch_numbers(same, growing),
        (
            "backward() adds gradients up, so each loss is divided by ACCUM_STEPS to make the sum a"
            f" mean.{_norms(evidence, same)}"
        ),
        _batch_practice(evidence, growing),
        decided="Samples of a step, micro-batches and ranks as counted; norms of the first gradient within 0.01 % "
        "are the same.",
        rests_on=rests_on,
    )


def _batch_numbers(same: dict[int, Point], growing: dict[int, Point]) -> str:
    told = []
    if growing:
        accum, last = list(growing.items())[-1]
        if last.row is not None and last.row.samples_per_step:
            told.append(
                f"With micro-batches of {micro_batch(last)} samples on {last.row.ranks}"
                f" rank{'s' * (last.row.ranks > 1)}, ACCUM_STEPS {accum} makes a batch of"
                f" {round(last.row.samples_per_step)}."
            )
    if same:
        accum, last = list(same.items())[-1]
        if last.row is not None and last.row.samples_per_step:
            told.append(
                f"Where the batch is fixed at {round(last.row.samples_per_step)}, ACCUM_STEPS {accum} leaves "
                f"{micro_batch(last)} sample{'s' * (micro_batch(last) != 1)} for a micro-batch."
            )
    return " ".join(told)


def _norms(evidence: Evidence, same: dict[int, Point]) -> str:
    found = {accum: row for accum in same if (row := _gradient(evidence, accum))}
    norms = [row.norm for row in found.values()]
    if len(norms) < 2:
        return ""
    cell = number_cell(norms[0])
    if max(abs(norm / norms[0] - 1) for norm in norms) <= SAME_GRADIENT:
        return f" It shows: the first gradient has norm {said(cell)} in every row of the same batch."
    return " Here the first gradients of the same batch differ, so the division is missing or in another place."


def _batch_practice(evidence: Evidence, growing: dict[int, Point]) -> str:
    told = ""
    if len(growing) > 1:
        first, last = next(iter(growing.values())), list(growing.values())[-1]
        told = (
            f"Let the batch grow instead: a sample then sends {said(sent_per_sample(last), 'kB')} instead of "
            f"{said(sent_per_sample(first), 'kB')} and takes {said(per_sample(last), 'us')} instead of "
            f"{said(per_sample(first), 'us')}."
        )
    found = slope(evidence, ACCUMULATION)
    if found is not None and found.low > 0:
        told += f" Cutting one batch into more pieces only costs: {said(slope_cell(found), 'ms')} for each further one."
    return told.strip()
