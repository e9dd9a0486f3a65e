"""H3.4: the same model on more devices: are all of them used, is it faster, and what would a pipeline change."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import ArmRow
from scalewise.course.gpus import gpu_steps, hand_over_seconds, known_of, told_source
from scalewise.course.homework import Question, Told
from scalewise.course.homework3.layer_placement import (
    ALL,
    AT_ONCE,
    DEVICES,
    MEGABYTE,
    OF_WHAT,
    SHARES,
    Placed,
    at_once_cell,
    busy_shares_text,
    copy_bytes,
    devices_phrase,
    placed_along,
    shares_phrase,
    timeline_figure,
    why_in_turn,
)
from scalewise.course.measured_arms import Contrast, contrast, usable
from scalewise.course.page_pieces import setting
from scalewise.report.cells import (
    count_cell,
    empty_cell,
    estimate_cell,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Figure, Formula, Lane, Section, Table, TimelinePlot
from scalewise.units import listed, with_capital

ORDER = 40
TABLE, PIPELINE, TIMELINE = "h3-4-devices", "h3-4-pipeline", "h3-4-timeline"
USED = Question(
    "H3.4",
    "Are all GPUs used?",
    "Use the busy share of each device, the share in which two or more are busy, and the memory of each.",
)
FASTER = Question(
    "H3.4",
    "Does it become faster with more GPUs (2 against 5)?",
    "Compare the step on 2 devices with that on 5, and say which part of a step a further device shortens.",
)
MICRO = "micro-batches"  # the experiment of one device with the batches that a pipeline would give it
FEW, MANY = 2, 5
NEARLY = 0.75  # of a time: from here on half the samples are said to take nearly as long
FORMULA = Formula(
    'T_"pipeline" = (m + N - 1) dot w_m / N + o / N',
    "T_pipeline = (m + N - 1) w_m / N + o / N",
    "<msub><mi>T</mi><mtext>pipeline</mtext></msub><mo>=</mo><mo>(</mo><mi>m</mi><mo>+</mo><mi>N</mi><mo>−</mo><mn>1</mn>"
    "<mo>)</mo><mfrac><msub><mi>w</mi><mi>m</mi></msub><mi>N</mi></mfrac><mo>+</mo><mfrac><mi>o</mi><mi>N</mi></mfrac>",
)


@dataclass(frozen=True)
class Schedule:
    """A step of N devices that get the batch in m micro-batches, computed from steps of one device."""

    micro_batches: int
    samples: int  # samples of one micro-batch
    work: Estimate  # seconds: forward and backward of one micro-batch on one device, measured
    step: Estimate  # seconds, predicted
    idle_share: float  # share of the devices' time in which the pipeline fills and drains
    forward_share: float  # share of the work that forward takes


@dataclass(frozen=True)
class OnDevices:
    """The data for H3.4."""

    points: tuple[Placed, ...]
    change: Contrast | None  # change of the step from 2 to 5 devices
    gpu_rows: tuple[tuple[int, Cell], ...]  # on H200 GPUs: number of GPUs, step
    schedules: tuple[Schedule, ...]
    gpu_name: str  # name of these GPUs; empty if there are none

    def at(self, devices: int) -> Placed | None:
        """Returns the point with so many devices, or None."""
        return next((point for point in self.points if point.value == devices), None)

    @property
    def change_cell(self) -> Cell | None:
        """The change of the step from 2 to 5 devices, in percent."""
        return estimate_cell(self.change.change, 100) if self.change else None


def build(evidence: Evidence) -> Section:
    """Builds the section: tables, one step over time, three schedules, answers."""
    found = on_devices(evidence)
    most = max((point for point in found.points if point.seen), key=lambda point: point.value, default=None)
    timeline = timeline_figure(most, TIMELINE, f"One step on {devices_phrase(most.value)}", 1.0) if most else None
    blocks: list[Block] = [_table(evidence, found), *([timeline] if timeline else [])]
    if found.schedules:
        blocks += [FORMULA, _pipeline_table(evidence, found), *(_schedule_figure(one) for one in found.schedules)]
    return Section(
        "h3-4",
        "H3.4 DEPTH 20 on 2 and 5 devices",
        (*blocks, _used(most, timeline is not None), _faster(found)),
        labelled=False,
    )


def on_devices(evidence: Evidence) -> OnDevices:
    """Returns rows, the comparison of 2 with 5 devices, rows of GPUs, and pipelines."""
    points = placed_along(evidence, ALL, "devices", DEVICES)
    rows = {point.value: point.row for point in points}
    return OnDevices(
        points,
        contrast(evidence, rows.get(FEW), rows.get(MANY)),
        tuple(_gpu_rows(evidence, points)),
        tuple(_schedules(evidence, rows.get(1))),
        known.device if (known := known_of(evidence)) else "",
    )


def _gpu_rows(evidence: Evidence, points: tuple[Placed, ...]) -> list[tuple[int, Cell]]:
    """Returns one H200 as measured, and N of them: the same step and two copies at each of N - 1 borders."""
    known = known_of(evidence)
    recorded = gpu_steps(evidence, ALL, (1,), devices=1)
    if known is None or not recorded:
        return []
    size = max(filter(None, map(copy_bytes, points)), default=None)
    one = recorded[0].step
    rows = [(1, estimate_cell(one, 1e3, note=recorded[0].source))]
    if size is None or not known.link:
        return rows
    for count in (FEW, MANY):
        copies = 2 * (count - 1) * hand_over_seconds(known.link, size)
        step = propagate(
            lambda seconds, copies=copies: seconds + copies, one, method=f"one GPU and its copies over {known.link}"
        )
        rows.append((count, estimate_cell(step, 1e3, mark="predicted", note=step.method)))
    return rows


def _schedules(evidence: Evidence, whole: ArmRow | None) -> list[Schedule]:
    """Returns the batch in one piece, in four and in eight, each from the measured step of one device."""
    if whole is None or whole.step_seconds is None or not whole.samples_per_step:
        return []
    batch = round(whole.samples_per_step)
    arms = [(1, whole)]
    for micro_batches in (4, 8):
        row = usable(evidence, MICRO, batch=batch // micro_batches)
        if row is not None and row.step_seconds is not None:
            arms.append((micro_batches, row))
    optimizer = whole.phase_seconds.get("optimizer") or 0.0
    return [_schedule(micro, batch // micro, row, optimizer) for micro, row in arms] if len(arms) > 1 else []


def _schedule(micro_batches: int, samples: int, row: ArmRow, once: float) -> Schedule:
    """Returns a schedule. The work w is a step without its optimizer, which runs once, on all devices at once."""
    assert row.step_seconds is not None, "only arms with a step are scheduled"
    optimizer = row.phase_seconds.get("optimizer") or 0.0
    forward, backward = (row.phase_seconds.get(phase) or 0.0 for phase in ("forward", "backward"))
    work = propagate(lambda step: step - optimizer, row.step_seconds, method="step less optimizer")
    rounds = micro_batches + MANY - 1
    step = propagate(lambda one: rounds * one / MANY + once / MANY, work, method="by the formula above")
    share = forward / (forward + backward) if forward + backward else 1 / 3
    return Schedule(micro_batches, samples, work, step, (MANY - 1) / rounds, share)


def _table(evidence: Evidence, found: OnDevices) -> Table:
    change = ""
    if found.change and found.change_cell:
        change = f" {MANY} devices against {FEW}: {said_with_interval(found.change_cell, '%')} of the step."
    notes = [f"{OF_WHAT}{change}"]
    notes += [f"{point.value} devices: {point.missing}." for point in found.points if point.missing]
    gpus = tuple((count_cell(count, mark=cell.mark), cell, *_empty(3)) for count, cell in found.gpu_rows)
    here = len(found.points)
    return Table(
        id=TABLE,
        title="Step time, memory and use of each device, DEPTH 20",
        columns=(
            Column("Devices N"),
            Column("Step", "ms"),
            Column("Memory of each", "MB", numeric=False),
            Column("Busy, each", SHARES, numeric=False),
            Column("Two or more busy", SHARES),
        ),
        rows=(*(_cells(point) for point in found.points), *gpus),
        notes=(*notes, *(_gpu_notes(evidence) if gpus else [])),
        caption=setting(evidence, ALL, but=("DEPTH",)),
        groups=((0, "On this machine"), (here, f"On {found.gpu_name}")) if gpus else (),
        runs=(*(point.row.run_names if point.row else () for point in found.points), *(() for _ in gpus)),
    )


def _gpu_notes(evidence: Evidence) -> list[str]:
    """The notes on the source of rows of GPUs: one GPU was measured; more GPUs are that step and its copies."""
    known = known_of(evidence)
    told = told_source(evidence, predicted=False)
    if known is None or not known.link:
        return [told]
    return [f"{told} Predicted: the step of one GPU, and N − 1 copies each way over {known.link}."]


def _empty(columns: int) -> tuple[Cell, ...]:
    return tuple(empty_cell("not recorded there") for _ in range(columns))


def _cells(point: Placed) -> tuple[Cell, ...]:
    count = count_cell(point.value, mark=point.mark)
    if point.seen is None:
        return count, point.step_cell, *(empty_cell("this step was not looked into") for _ in range(3))
    memory = ", ".join(_memory(point)) or "–"
    return (
        count,
        point.step_cell,
        text_cell(memory),
        text_cell(busy_shares_text(point.seen.devices)),
        at_once_cell(point.seen),
    )


def _memory(point: Placed) -> list[str]:
    devices = point.seen.devices if point.seen else ()
    return [number_cell(one.peak_bytes, 1 / MEGABYTE).text for one in devices if one.peak_bytes is not None]


def _pipeline_table(evidence: Evidence, found: OnDevices) -> Table:
    rows = [
        (
            count_cell(one.micro_batches, mark="predicted"),
            count_cell(one.samples),
            estimate_cell(one.work, 1e3),
            estimate_cell(one.step, 1e3, mark="predicted", note=one.step.method),
            number_cell(one.idle_share, 100, mark="predicted"),
        )
        for one in found.schedules
    ]
    return Table(
        id=PIPELINE,
        title=f"What a pipeline would make of it on {MANY} devices",
        columns=(
            Column("Micro-batches m"),
            Column("Samples in each"),
            Column("Work w of one, measured on one device", "ms"),
            Column("Step, predicted", "ms"),
            Column("Devices idle, predicted", "%"),
        ),
        rows=tuple(rows),
        notes=(
            (
                "w: forward and backward of one micro-batch; o: the optimizer, once a step. Copies are left out. A"
                " smaller micro-batch costs more for each sample."
            ),
            *_checked(found),
        ),
        caption=setting(evidence, ALL, MICRO, but=("BATCH",)),
    )


def _checked(found: OnDevices) -> list[str]:
    """m = 1 is the script as it is, and that was measured on so many devices."""
    many, first = found.at(MANY), next((one for one in found.schedules if one.micro_batches == 1), None)
    step = many.row.step_seconds if many is not None and many.row is not None else None
    if many is None or first is None or step is None:
        return []
    ratio = estimate_cell(ratio_of(step, first.step))
    word = f", {many.mark}" if many.mark != "measured" else ""
    return [
        f"m = 1 is the script as it is, so it can be checked: {said_with_interval(many.step_cell, 'ms')} on {MANY}"
        f" devices (table above{word}), {said_with_interval(ratio)} times as long as predicted without copies."
    ]


def _schedule_figure(one: Schedule) -> Figure:
    """Returns a figure of forward of every micro-batch through all devices, then backward the other way (GPipe)."""
    unit = one.work.value * 1e3 / MANY
    forward, backward = unit * one.forward_share, unit * (1 - one.forward_share)
    turn = (one.micro_batches + MANY - 1) * forward  # end of the last forward
    lanes, micro_batches = [], range(1, one.micro_batches + 1)
    for device in range(MANY):
        there = [
            ((device + index) * forward, (device + index + 1) * forward, "forward")
            for index in range(one.micro_batches)
        ]
        first = turn + (MANY - 1 - device) * backward
        back = [
            (first + index * backward, first + (index + 1) * backward, "backward") for index in range(one.micro_batches)
        ]
        lanes.append(Lane(f"{device}", (*there, *back), numbers=(*micro_batches, *micro_batches)))
    how = "as it is" if one.micro_batches == 1 else f"pipeline, m = {one.micro_batches}"
    caption = f"Predicted; devices idle for {100 * one.idle_share:.0f} %."
    return Figure(
        f"h3-4-m{one.micro_batches}", with_capital(how), caption, TimelinePlot(tuple(lanes), "time (ms)"), 0.33
    )


def _used(most: Placed | None, drawn: bool) -> Answer:
    rests_on = (TABLE, *([TIMELINE] if drawn else []))
    if most is None or most.seen is None or not most.seen.layers_seconds:
        return USED.without_hint("This cannot be answered: no step was looked into.", rests_on=rests_on)
    seen, count = most.seen, most.seen.device_count
    idle = [f"device {index}" for index, one in enumerate(seen.devices) if not one.busy_seconds]
    together = at_once_cell(seen)
    if idle:
        verdict: Told = "No", f"{listed(idle)} of {devices_phrase(count)} did nothing."
    elif count == 1:
        verdict = "There is only one device, and it is used."
    elif seen.together_share <= AT_ONCE:
        verdict = f"All {count} are used, but only one at a time."
    else:
        verdict = f"All {count} are used, and for {said(together, '%')} of forward and backward more than one at once."
    memory = _memory(most)
    held = f" Each holds its own part of the model: {listed(memory)} MB." if len(set(memory)) > 1 else ""
    held = held or (f" Each holds its own part of the model, {memory[0]} MB." if memory else "")
    return USED.answer(
        verdict,
        f"{_busy(most)}.{held}",
        f"{why_in_turn(seen)}{_rest(most)}",
        "Model parallelism of this kind buys memory, not speed.",
        decided=f"{count - len(idle)} of {count} devices worked in the step that was looked into; more than one at "
        f"once for {said(together, '%')} of it.",
        rests_on=rests_on,
    )


def _rest(most: Placed) -> str:
    """A sentence on the time that the devices' shares leave over."""
    if most.seen is None or most.seen.together_share > AT_ONCE:
        return ""
    return " What these shares leave over is what starts the work: Python, launching, copies, the loss."


def _busy(most: Placed) -> str:
    words = shares_phrase(most.seen) if most.seen else ""
    return f"{with_capital(words)} of forward and backward"


def _faster(found: OnDevices) -> Answer:
    few, many = found.at(FEW), found.at(MANY)
    rests_on = (TABLE, *([PIPELINE] if found.schedules else []))
    if found.change is None or few is None or many is None or found.change_cell is None:
        missing = (
            listed([point.missing for point in found.points if point.missing]) or "the two did not do the same work"
        )
        return FASTER.without_hint(f"This cannot be answered: {missing}.", rests_on=rests_on)
    steps = f"{said(few.step_cell, 'ms')} on {FEW} devices, {said(many.step_cell, 'ms')} on {MANY}"
    verdicts: dict[str, Told] = {
        "faster": f"In these runs {MANY} devices were faster than {FEW}, although nothing in the script explains it.",
        "slower": ("No", f"{MANY} devices are slower than {FEW}."),
        "cannot tell": ("No", f"no gain from {FEW} to {MANY} devices was seen."),
    }
    gpus = dict(found.gpu_rows)
    on_gpus = ""
    if FEW in gpus and MANY in gpus:
        on_gpus = (
            f" On real GPUs ({found.gpu_name}) the same is predicted: {said(gpus[FEW], 'ms')} on {FEW},"
            f" {said(gpus[MANY], 'ms')} on {MANY}."
        )
    return FASTER.answer(
        verdicts[found.change.verdict],
        f"The step takes {steps}.{on_gpus}",
        "The layers still run one after another; every further device adds a copy in forward and one in backward.",
        _pipeline_words(found),
        decided=f"The 95 % interval of the change from {FEW} to {MANY} devices,"
        f" {said_with_interval(found.change_cell, '%')}, against 0.",
        rests_on=rests_on,
    )


def _pipeline_words(found: OnDevices) -> str:
    """A sentence on the numbers of micro-batches that would help, or would not, by the intervals of the table."""
    whole = next((one for one in found.schedules if one.micro_batches == 1), None)
    pieces = [one for one in found.schedules if one.micro_batches > 1]
    if whole is None or not pieces:
        return "Only work at the same time would make it faster: micro-batches in a pipeline."
    best = min(pieces, key=lambda one: one.step.value)
    steps = {one.micro_batches: said(estimate_cell(one.step, 1e3, mark="predicted"), "ms") for one in found.schedules}
    if ratio_of(best.step, whole.step).high >= 1:
        tried = listed([f"{steps[one.micro_batches]} with {one.micro_batches}" for one in pieces])
        return (
            f"No clear gain is predicted from a pipeline at this size: {tried} micro-batches, {steps[1]} without. A "
            "small micro-batch costs so much for each sample that working at once does not pay for it."
        )
    told = (
        f"A pipeline would help: with {best.micro_batches} micro-batches the step on {MANY} devices is predicted to"
        f" take {steps[best.micro_batches]} instead of {steps[1]}."
    )
    worse = next((one for one in pieces if one is not best and ratio_of(one.step, whole.step).high >= 1), None)
    if worse is None:
        return told
    told += f" With {worse.micro_batches} it is {steps[worse.micro_batches]}, no gain:"
    if worse.samples < best.samples and worse.work.value > NEARLY * best.work.value:
        return f"{told} {worse.samples} samples take one device nearly as long as {best.samples}."
    return f"{told} more pieces cost more than the devices' idle time."
