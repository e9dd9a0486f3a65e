"""H2.3: what causes the codes' differences in time and memory, and how accumulation changes the effective batch."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.memory_parts import MemoryParts
from scalewise.analysis.phrases import listed
from scalewise.course.captions import setting
from scalewise.course.homework2.codes import ACCUMULATION, BOTH, CODES, MIXED, NAMES, REMOVED, code_point
from scalewise.course.homework2.h2_2 import (
    ACCUM_TABLE,
    GROWING_TABLE,
    SAMPLES,
    accumulation_points,
    growing_points,
    micro_batch,
    slope,
    slope_cell,
)
from scalewise.course.measured import MEGABYTE, Point, StepChange, change_between, change_cell
from scalewise.course.memory import parts_of
from scalewise.course.practical7.p7_1 import first_gradient
from scalewise.course.practical7.p7_5 import per_sample, sent_per_sample
from scalewise.records.inspection import GradientRow
from scalewise.report.cells import count_cell, empty_cell, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, BarPlot, Block, Cell, Column, Figure, Formula, Part, Section, Table

ORDER = 30
ROW, TIME_TABLE, MEMORY_TABLE, BATCH_TABLE = "H2.3", "h2-3-time", "h2-3-memory", "h2-3-batch"
ANATOMY = "h2-3-anatomy"
TIME = "Where do the differences in time come from: synchronisation or precision?"
MEMORY = "How do accumulation and AMP act on memory, and how do they differ?"
BATCH = "How does accumulation change the effective batch size, and why is the loss divided?"
SAME_GRADIENT = 1e-4  # relative: sums in another order differ by 1e-6 in float32, another batch by much more
SAME = 0.01  # share of a peak
FORMULA = Formula(
    'B_"effective" = "micro-batch" times "ACCUM_STEPS" times "ranks"',
    "effective batch = micro-batch x ACCUM_STEPS x ranks",
    "<msub><mi>B</mi><mtext>effective</mtext></msub><mo>=</mo><mtext>micro-batch</mtext><mo>×</mo>"
    "<mtext>ACCUM_STEPS</mtext><mo>×</mo><mtext>ranks</mtext>",
)
COLUMNS = (
    "weights",
    "gradients",
    "activations",
    "half-precision copies",
    "DDP buckets",
    "input data",
    "work in progress",
)


@dataclass(frozen=True)
class Split:
    """One code's step, with and without its communication."""

    code: str
    whole: Point
    silent: Point  # without communication

    @property
    def sending(self) -> Cell:
        """The time that communication adds, in milliseconds."""
        whole, silent = self.whole.row, self.silent.row
        if whole is not None and whole.ranks == 1:
            return empty_cell("one rank has nobody to talk to")
        if whole is None or silent is None or whole.step_seconds is None or silent.step_seconds is None:
            return empty_cell("not measured with and without communication")
        return number_cell((whole.step_seconds.value - silent.step_seconds.value) * 1e3)


def build(evidence: Evidence) -> Section:
    """Builds the section: three tables and the three answers."""
    splits = {code: Split(code, code_point(evidence, code), code_point(evidence, code, REMOVED)) for code in CODES}
    parts = {code: found for code in CODES if (found := parts_of(evidence, "codes", code=code))}
    anatomy = _anatomy(splits)
    blocks: list[Block] = [_time_table(evidence, splits), *([anatomy] if anatomy else []), _time(evidence, splits)]
    blocks += [_memory_table(evidence, parts), _memory(evidence, parts)]
    blocks += [_batch_table(evidence), FORMULA, _batch(evidence)]
    return Section("h2-3", "H2.3 Why they differ", tuple(blocks))


def _time_table(evidence: Evidence, splits: dict[str, Split]) -> Table:
    first = splits[ACCUMULATION]
    return Table(
        id=TIME_TABLE,
        title="The step with and without its communication",
        columns=(
            Column("Code", numeric=False),
            Column("Ranks"),
            Column("Step", "ms"),
            Column("Without communication", "ms"),
            Column("Communication adds", "ms"),
            Column("Without it, against Code 1", "% of the step"),
            Column("Reduced", "MB per step"),
        ),
        rows=tuple(_time_cells(evidence, one, first) for one in splits.values()),
        notes=("Without communication: the same run, with every all-reduce left out.",),
        caption=setting(evidence, "codes", but=("ranks",)),
        runs=tuple((*one.whole.run_names, *one.silent.run_names) for one in splits.values()),
    )


def _computing_change(evidence: Evidence, one: Split, other: Split) -> StepChange | None:
    """Returns the change of the step without communication; on one rank, of the step itself."""
    alone = other.whole.row is not None and other.whole.row.ranks == 1
    return change_between(evidence, *((s.whole if alone else s.silent) for s in (one, other)))


def _time_cells(evidence: Evidence, one: Split, first: Split) -> tuple[Cell, ...]:
    name = text_cell(NAMES[one.code], mark=one.whole.ranks.mark)
    if one.whole.row is None:
        return name, *(empty_cell(one.whole.missing) for _ in range(6))
    change = _computing_change(evidence, first, one) if one is not first else None
    silent = one.silent.step if one.whole.row.ranks > 1 else empty_cell("one rank sends nothing to others")
    against = change_cell(change, "Code 1 is the base" if one is first else "not the same work")
    return name, one.whole.ranks, one.whole.step, silent, one.sending, against, one.whole.reduced_mb


def _anatomy(splits: dict[str, Split]) -> Figure | None:
    known = [one for one in splits.values() if one.whole.row is not None and one.whole.step.number is not None]
    if not known:
        return None
    sending = [max(one.sending.number or 0.0, 0.0) for one in known]
    steps = [one.whole.step.number or 0.0 for one in known]
    parts = [Part("computing", tuple(step - sent for step, sent in zip(steps, sending, strict=True)))]
    if any(sending):
        parts.append(Part("communication adds", tuple(sending)))
    lows = tuple(one.whole.step.low or step for one, step in zip(known, steps, strict=True))
    highs = tuple(one.whole.step.high or step for one, step in zip(known, steps, strict=True))
    plot = BarPlot(tuple(NAMES[one.code] for one in known), tuple(parts), "time per step (ms)", lows, highs)
    return Figure(ANATOMY, "The step in two parts", "Lines: 95 % interval of the step.", plot)


def _time(evidence: Evidence, splits: dict[str, Split]) -> Answer:
    rests_on = (TIME_TABLE, *([ANATOMY] if any(one.whole.row for one in splits.values()) else []))
    one, two, three = (splits[code] for code in (ACCUMULATION, MIXED, BOTH))
    precision = _computing_change(evidence, one, three)
    pieces = _computing_change(evidence, three, two)
    if precision is None or one.whole.row is None or three.whole.row is None:
        missing = "; ".join(
            s.whole.missing or s.silent.missing for s in splits.values() if s.whole.missing or s.silent.missing
        )
        return Answer(
            ROW, TIME, f"This cannot be answered: {missing or 'the codes ran on different ranks'}.", rests_on=rests_on
        )
    alone = one.whole.row.ranks == 1
    steps = listed([f"{NAMES[s.code]} takes {said(s.whole.step, 'ms')}" for s in splits.values() if s.whole.row])
    verdict = {
        "slower": (
            "From precision, but against the sheet: here the casts and the scaler of AMP cost more than 16-bit "
            "products save."
        ),
        "faster": "From precision: 16-bit products save more than the casts and the scaler cost.",
        "cannot tell": "From neither, as far as these runs show.",
    }[precision.verdict]
    if pieces is not None and pieces.verdict == "faster" and precision.verdict == "cannot tell":
        verdict = "From the number of micro-batches: Code 2 computes its batch in one piece."
    equal = len({s.whole.reduced_bytes for s in splits.values() if s.whole.row}) == 1
    sync = "One rank has no other to synchronise with."
    if not alone:
        sync = (
            f"Synchronisation does not tell them apart: each averages {said(one.whole.reduced_mb, 'MB')} once in a"
            " step, because gradients stay float32 under autocast."
            if equal
            else "They also send different amounts in a step."
        )
    what = "the step" if alone else "the step without communication"
    return Answer(
        ROW,
        TIME,
        verdict=verdict,
        number=(
            f"{steps}. Code 3 takes {precision.words()} than Code 1 in {what}."
            if alone
            else f"{steps}. Without communication Code 3 takes {precision.words()} than Code 1."
        ),
        why=f"{sync} {_why_precision(one.whole, precision)}",
        practice=(
            "AMP pays for large products on a device with fast 16-bit units; practical 7 shows from which size on."
        ),
        decided="; ".join(
            f"{name}: {said_with_interval(change.cell, '%')}, against 0"
            for name, change in (("Code 3 against Code 1", precision), ("Code 2 against Code 3", pieces))
            if change
        ),
        rests_on=rests_on,
        hint="Compare the steps without communication for precision, and the bytes for synchronisation.",
    )


def _why_precision(one: Point, change: StepChange) -> str:
    if change.verdict == "faster":
        return "Products of 16-bit numbers are quicker on this device."
    if one.row is not None and one.row.device == "cuda":
        return (
            "The model is so small that the GPU waits for Python to launch its kernels; every cast and the scaler's "
            "check are more launches."
        )
    return "A CPU without 16-bit units converts to float32 and back for each product, and every cast is more work."


def _memory_table(evidence: Evidence, parts: dict[str, MemoryParts]) -> Table:
    shown = [name for name in COLUMNS if any(one.parts.get(name) for one in parts.values())]
    return Table(
        id=MEMORY_TABLE,
        title="Memory of a step by purpose, at its peak",
        columns=(
            Column("Code", numeric=False),
            Column("Peak", "MB"),
            *(Column(name[:1].upper() + name[1:], "MB") for name in shown),
        ),
        rows=tuple(_memory_cells(code, parts.get(code), shown) for code in CODES),
        notes=(
            "Work in progress: tensors that live only in passing, such as a gradient before it is added to the others.",
        ),
        caption=setting(evidence, "codes"),
    )


def _memory_cells(code: str, one: MemoryParts | None, shown: list[str]) -> tuple[Cell, ...]:
    if one is None:
        return text_cell(NAMES[code]), *(empty_cell("its memory was not looked into") for _ in range(len(shown) + 1))
    return text_cell(NAMES[code]), peak_cell(one), *(number_cell(one.parts[name], 1 / MEGABYTE) for name in shown)


def peak_cell(one: MemoryParts) -> Cell:
    """Returns the peak in megabytes."""
    return number_cell(one.peak_bytes, 1 / MEGABYTE, why_empty="the peak was not seen")


def _memory(evidence: Evidence, parts: dict[str, MemoryParts]) -> Answer:
    if len(parts) < len(CODES) or any(one.peak_bytes is None for one in parts.values()):
        missing = listed([NAMES[code] for code in CODES if code not in parts]) or "one of the codes"
        return Answer(
            ROW,
            MEMORY,
            f"This cannot be answered: the memory of {missing} was not looked into.",
            rests_on=(MEMORY_TABLE,),
        )
    one, two, three = (parts[code] for code in (ACCUMULATION, MIXED, BOTH))
    amp, accumulation = _sign(one, three), _sign(two, three)
    verdict = {
        ("less", "less"): "Both save memory.",
        ("more", "more"): "Against the sheet, neither saves memory at this size: both add more than they take away.",
        ("less", "more"): "AMP saves memory, accumulation adds some.",
        ("more", "less"): "Accumulation saves memory, AMP adds some.",
    }.get((amp, accumulation), f"AMP needs {_word(amp)}, accumulation {_word(accumulation)}.")
    activations = [
        f"{said(number_cell(p.parts['activations'], 1 / MEGABYTE), 'MB')} in {NAMES[c]}" for c, p in parts.items()
    ]
    copies = number_cell(three.parts["half-precision copies"], 1 / MEGABYTE)
    extra = (
        f" AMP keeps {said(copies, 'MB')} of 16-bit copies of the weights beside them."
        if three.parts["half-precision copies"]
        else ""
    )
    return Answer(
        ROW,
        MEMORY,
        verdict=verdict,
        number=(
            f"AMP (Code 1 to 3) changes the peak from {said(peak_cell(one), 'MB')} to {said(peak_cell(three), 'MB')}, "
            f"accumulation (Code 2 to 3) from {said(peak_cell(two), 'MB')} to {said(peak_cell(three), 'MB')}."
        ),
        why=(
            f"Both act on activations, {listed(activations)}: accumulation keeps those of one micro-batch at a time,"
            f" AMP stores them in 16 bits.{extra} Accumulation keeps the sum of the gradients while the next gradient"
            " is made."
        ),
        practice=(
            "Activations grow with batch × DIM × DEPTH, weights and gradients with DIM² × DEPTH. So both techniques"
            " save memory only where the batch of a rank is large against DIM."
        ),
        decided=f"Peaks within {100 * SAME:.0f} % count as the same.",
        rests_on=(MEMORY_TABLE,),
        hint="Compare the peaks, and for each technique name one part that shrinks and one that grows.",
    )


def _sign(before: MemoryParts, after: MemoryParts) -> str:
    a, b = before.peak_bytes or 0, after.peak_bytes or 0
    if abs(b - a) <= SAME * max(a, 1):
        return "same"
    return "less" if b < a else "more"


def _word(sign: str) -> str:
    return "as much memory" if sign == "same" else f"{sign} memory"


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
        return Answer(ROW, BATCH, "This cannot be answered: no run of Code 1 was counted.", rests_on=rests_on)
    return Answer(
        ROW,
        BATCH,
        verdict="It multiplies it: the effective batch is micro-batch × ACCUM_STEPS × ranks.",
        number=_batch_numbers(same, growing),
        why=(
            "backward() adds gradients up, so each loss is divided by ACCUM_STEPS to make the sum a"
            f" mean.{_norms(evidence, same)}"
        ),
        practice=_batch_practice(evidence, growing),
        decided=(
            "Samples of a step, micro-batches and ranks as counted; norms of the first gradient within 0.01 % are the"
            " same."
        ),
        rests_on=rests_on,
        hint=(
            "Write the effective batch as a product for one row, and compare the first gradients of the rows with one"
            " batch."
        ),
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
