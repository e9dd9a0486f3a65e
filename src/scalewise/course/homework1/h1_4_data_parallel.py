"""H1.4: DataParallel against DDP: which device works and holds memory, how steps vary, and when messages are sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import equivalent, ratio_of
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.trace import RankStep
from scalewise.course.homework import Question
from scalewise.course.homework1.comparable_rows import EQUAL, MARGIN, again, agreeing_rows, on_gpus, shaken_by, volume
from scalewise.course.homework1.h1_4_devices import (
    BYTES_TABLE,
    DDP,
    DEVICES,
    DP,
    MEGA,
    OVER_TIME,
    STEP,
    STRIPS,
    Device,
    DeviceTraffic,
    Shown,
    Steadiness,
    bytes_row,
    bytes_table,
    ddp_steps,
    devices_of_ddp,
    devices_of_dp,
    hidden_text,
    over_time_figure,
    steadier,
    steadiness,
    step_figure,
    strips_figure,
    why_steadier,
)
from scalewise.course.measured_arms import figures_of, refusals, step_ratio
from scalewise.course.page_pieces import setting
from scalewise.report.cells import empty_cell, estimate_cell, mark_of, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Mark, Section, Table
from scalewise.units import listed

ORDER = 40
TABLE = "h1-4-dp-ddp"
EXPERIMENTS = {DP: "data-parallel", DDP: "ddp"}
BOUND = Question(
    "H1.4",
    "Why is DataParallel bound by GPU 0?",
    "the layers, the optimizer and the memory of the first device, and the bytes through it",
)
COMPARED = Question(
    "H1.4",
    "How do utilisation, step-time variance and memory compare?",
    "the columns of the table, and the distribution of step times",
)
DESIGN = Question(
    "H1.4",
    "Why does DDP scale better by design?",
    "the bytes through the busiest device on 2, 4 and 8 devices, and when DDP sends",
)
ACCEPTABLE = Question("H1.4", "When is DataParallel still acceptable?", "both step times and their ratio")
MORE = 1.05  # the first device must do or hold this many times as much before it is said to stand out


@dataclass(frozen=True)
class Method:
    """One of the two methods, as the table shows it."""

    name: str
    row: ArmRow | None
    mark: Mark
    step: Cell
    deviation: Cell
    variance: Cell
    relative: Cell
    steady: Steadiness | None
    devices: tuple[Device, ...]
    utilised_by: str  # how the utilisation was measured
    held_by: str  # how the memory was measured

    @property
    def first_memory(self) -> Cell:
        """The memory of the first device."""
        return _device_cells(self.devices[0], self.mark)[4] if self.devices else empty_cell("")


@dataclass(frozen=True)
class Both:
    """The data for H1.4."""

    dp: Method
    ddp: Method
    ratio: Estimate | None  # step of DP over step of DDP
    traffic: DeviceTraffic | None  # None where copies or gradients were not counted
    steps: tuple[RankStep, ...]  # one step of DDP, rank by rank
    emulated: bool

    @property
    def unsteadier(self) -> Estimate | None:
        """The relative deviation of DataParallel's steps over that of DDP's."""
        if self.dp.steady is None or self.ddp.steady is None:
            return None
        return ratio_of(self.dp.steady.relative, self.ddp.steady.relative)

    @property
    def ratio_cell(self) -> Cell:
        """The step of DataParallel over that of DDP."""
        return estimate_cell(self.ratio)


def build(evidence: Evidence) -> Section:
    """Builds the section: tables, distribution, one step of DDP, utilisation over time, answers."""
    found = both(evidence)
    blocks: list[Block] = [_table(evidence, found)]
    if found.traffic is not None:
        blocks.append(bytes_table(found.traffic))
    shown = tuple(Shown(one.name, one.row, one.mark, one.steady) for one in (found.dp, found.ddp))
    figures = strips_figure(evidence, shown), over_time_figure(evidence, shown), step_figure(found.steps)
    blocks += [figure for figure in figures if figure is not None]
    answers = (
        _bound(evidence, found),
        _compared(evidence, found),
        _design(evidence, found),
        _acceptable(evidence, found),
    )
    return Section("h1-4", "DataParallel and DistributedDataParallel", (*blocks, *answers))


def both(evidence: Evidence) -> Both:
    """Returns the data from the experiments data-parallel and ddp, their inspected runs and samples."""
    rows = {name: _row(evidence, experiment) for name, experiment in EXPERIMENTS.items()}
    inspected = evidence.inspection(EXPERIMENTS[DP])
    emulated = bool(inspected and inspected.emulated) or any(
        row is not None and row.mark == "emulated" for row in rows.values()
    )
    steps = ddp_steps(evidence)
    dp = _method(evidence, DP, rows[DP], devices_of_dp(evidence, rows[DP], inspected), emulated)
    ddp = _method(evidence, DDP, rows[DDP], devices_of_ddp(evidence, rows[DDP]), emulated)
    first = inspected.device_memory[0].device if inspected and inspected.device_memory else ""
    moved = sum(one.bytes for one in inspected.transfers if first in (one.source, one.target)) if inspected else 0
    ddp_row = rows[DDP]
    reduced = volume(ddp_row)[1] if ddp_row is not None else 0.0
    traffic = DeviceTraffic(moved, reduced, dp.mark) if moved and reduced else None
    return Both(dp, ddp, step_ratio(evidence, rows[DP], rows[DDP]), traffic, steps, emulated)


def _row(evidence: Evidence, experiment: str) -> ArmRow | None:
    return next((row for row in agreeing_rows(evidence, experiment) if row.step_seconds is not None), None)


def _method(evidence: Evidence, name: str, row: ArmRow | None, devices: tuple[Device, ...], emulated: bool) -> Method:
    mark = mark_of(row, emulated=emulated and name == DP)
    step = again(evidence).widened(row.step_seconds) if row else None
    runs = figures_of(evidence, row)
    steady = steadiness([run.step_seconds[run.warmup_steps :] for run in runs])
    why = "no usable run"
    by = ("nvidia-smi", "torch's allocator") if on_gpus(evidence) else ("busy cores", "tensors of an inspected step")
    return Method(
        name=name,
        row=row,
        mark=mark,
        step=estimate_cell(step, 1e3, mark=mark, why_empty=why),
        deviation=number_cell(steady.deviation if steady else None, 1e3, mark=mark, why_empty=why),
        variance=number_cell(steady.variance if steady else None, 1e6, mark=mark, why_empty=why),
        relative=estimate_cell(steady.relative if steady else None, 100, mark=mark, why_empty=why),
        steady=steady,
        devices=devices,
        utilised_by=by[0],
        held_by=by[1],
    )


def _table(evidence: Evidence, found: Both) -> Table:
    columns = (
        Column("Method", numeric=False),
        Column("Device", numeric=False),
        Column("Layers", "%"),
        Column("Optimizer", "ms"),
        Column("Memory/GPU", "MB"),
        Column("Utilisation", "%"),
        Column("Time/step", "ms"),
        Column("Standard deviation", "ms"),
        Column("Variance", "ms²"),
        Column("Deviation / mean", "%"),
    )
    rows, names = [], []
    for method in (found.dp, found.ddp):
        devices = method.devices or (Device(method.name, "all", None, None, None, None),)
        for index, device in enumerate(devices):
            whole = (method.step, method.deviation, method.variance, method.relative)
            same = tuple(empty_cell("the same step as above", method.mark) for _ in whole)
            head = text_cell(method.name if not index else "", mark=method.mark)
            rows.append((head, *_device_cells(device, method.mark)[1:], *(same if index else whole)))
            names.append(method.row.run_names if method.row else ())
    ratio = (
        f" DataParallel's step takes {said_with_interval(found.ratio_cell)} times DDP's."
        if found.ratio is not None
        else ""
    )
    if found.unsteadier is not None:
        times = said_with_interval(estimate_cell(found.unsteadier))
        ratio += f" Its steps deviate {times} times as much from their mean."
    return Table(
        TABLE,
        "DataParallel against DDP, device by device",
        columns,
        tuple(rows),
        (*_notes(found), *refusals(evidence, *EXPERIMENTS.values())),
        tuple(names),
        caption=f"{setting(evidence, EXPERIMENTS[DDP], but=('ranks',))}{ratio} {EQUAL}",
    )


def _device_cells(device: Device, mark: Mark) -> tuple[Cell, ...]:
    """The cells of one device: method, device, layers, optimizer, memory and utilisation."""
    return (
        text_cell(device.method, mark=mark),
        text_cell(device.name, mark=mark),
        number_cell(device.part.value if device.part else None, 100, mark=mark, why_empty="no inspected run"),
        number_cell(device.own_seconds, 1e3, mark=mark, why_empty="every rank updates its own weights"),
        number_cell(device.memory_bytes, MEGA, mark=mark, why_empty="no inspected run"),
        number_cell(device.utilisation, 100, mark=mark, why_empty="the same process as above, or not recorded"),
    )


def _notes(found: Both) -> tuple[str, ...]:
    notes = [f"Utilisation: {found.ddp.utilised_by}, median while steps were made. Memory: {found.dp.held_by}."]
    if found.dp.utilised_by == "busy cores":
        notes = [
            "Utilisation: share of the process's cores that were busy, median while steps were made; DataParallel "
            f"is one process on all of them. Memory: {found.dp.held_by}."
        ]
    notes.append(
        f"Layers: the device's part of the time of all layers{_range_words(found)}; DDP's ranks do equal work by "
        "design. Optimizer: DataParallel's first device alone updates the weights. Variance: mean over the runs of "
        "each run's variance; deviations are its root."
    )
    if found.emulated:
        notes.append(
            "Emulated: logical devices, or ranks that share a GPU, stand for GPUs. Copies, memory and order are "
            "real, the times are those of shared hardware."
        )
    return tuple(notes)


def _range_words(found: Both) -> str:
    """A phrase on the range of the first device's share of the layers' time over the inspected steps."""
    part = found.dp.devices[0].part if found.dp.devices else None
    if part is None or part.steps < 2:
        return ""
    low, high = (said(number_cell(end, 100)) for end in (part.low, part.high))
    return f" over {part.steps} inspected steps, of {DP}'s first device from {low} to {high} % step by step"


def _bound(evidence: Evidence, found: Both) -> Answer:
    """Returns the answer: bound if the first device does or holds more than each other one; else it does not show."""
    devices = found.dp.devices
    why = (
        "It scatters the batch, copies the weights to all others in every step, gathers their outputs, computes "
        "the loss, adds up the gradients and updates the weights; meanwhile the others wait for it."
    )
    practice = (
        "So its memory limits the batch, and whatever it does alone is not shared, however many devices there are."
    )
    if len(devices) < 2:
        return _unanswered(BOUND, found, why)
    first, others = devices[0], devices[1:]
    memory = (first.memory_bytes or 0.0) > MORE * max(one.memory_bytes or 0.0 for one in others)
    alone = bool(first.own_seconds) and not any(one.own_seconds for one in others)
    words = (
        ("the optimizer to itself", alone),
        ("more work in its layers than any other", _computes_more(first, others)),
        ("more memory than any other", memory),
    )
    more = [word for word, one in words if one]
    if more:
        verdict = f"Because the first device has {listed(more)}, and all traffic passes through it."
    else:
        verdict = (
            "Because all traffic passes through it; that it computes or holds more than the others does not show here."
        )
    return BOUND.answer(
        verdict,
        _bound_number(found),
        why,
        practice,
        decided="More work: layers whose share is above "
        f"{MORE} times the most of any other device in every inspected step. More memory: above {MORE} times.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENTS[DP]),
    )


def _computes_more(first: Device, others: Sequence[Device]) -> bool:
    """True if the first device's least share of the layers' time is above the largest of the others."""
    most = max((one.part.high for one in others if one.part), default=0.0)
    return first.part is not None and first.part.low > MORE * most


def _bound_number(found: Both) -> str:
    first, other = (_device_cells(one, found.dp.mark) for one in found.dp.devices[:2])
    emulated = " (emulated)" if found.dp.mark == "emulated" else ""
    told = (
        f"It holds {said(first[4], 'MB')}, the next {said(other[4], 'MB')}{emulated}. Each computes its part of the "
        f"batch; the first one's layers take {said(first[2], '%')} of the layers' time"
    )
    if found.dp.devices[0].own_seconds and first[3].number is not None:
        return f"{told}, and it alone updates the weights, {said(first[3], 'ms')} a step."
    return f"{told}."


def _compared(evidence: Evidence, found: Both) -> Answer:
    """The sheet's three columns in words; a method is called steadier only if the interval of the ratio shows it."""
    dp, ddp = found.dp, found.ddp
    change = found.unsteadier
    if change is None:
        return _unanswered(COMPARED, found)
    word = equivalent(change, MARGIN)
    emulated = " (emulated)" if dp.mark == "emulated" else ""
    number = (
        f"The variance is {said(dp.variance, 'ms²')} for DataParallel{emulated} and {said(ddp.variance, 'ms²')} for "
        f"DDP; relative to the mean their steps deviate by {said(dp.relative, '%')} and {said(ddp.relative, '%')}, "
        f"{said_with_interval(estimate_cell(change))} times as much."
    )
    memory = ""
    if dp.devices and ddp.devices and dp.devices[0].memory_bytes and ddp.devices[0].memory_bytes:
        memory = (
            f"DataParallel's first device holds {said(dp.first_memory, 'MB')}, a rank of DDP "
            f"{said(ddp.first_memory, 'MB')}: DDP keeps buckets beside its gradients, on every device alike."
        )
    return COMPARED.answer(
        steadier(word, change.value),
        number,
        why_steadier(word, change.value),
        f"{memory} {_used_words(found)}".strip(),
        decided="Standard deviation over mean of the steps after warm-up, DataParallel over DDP: the interval of the "
        f"ratio above or below 1, within {MARGIN:.0%} of it, or none of these. Intervals: blocks of steps drawn "
        "again, and the spread between runs. Utilisation and memory as in the table's notes.",
        rests_on=(TABLE, STRIPS, OVER_TIME),
        shaken_by=shaken_by(evidence, *EXPERIMENTS.values()),
    )


def _used_words(found: Both) -> str:
    dp, ddp = (one.devices[0] if one.devices else None for one in (found.dp, found.ddp))
    if dp is None or ddp is None or dp.utilisation is None or ddp.utilisation is None:
        return ""
    cells = _device_cells(dp, found.dp.mark)[5], _device_cells(ddp, found.ddp.mark)[5]
    return f"Utilisation is {said(cells[0], '%')} for DataParallel and {said(cells[1], '%')} for DDP's rank 0."


def _design(evidence: Evidence, found: Both) -> Answer:
    """Returns the answer, by what waits for the first device; if DataParallel is faster here, that comes first."""
    if found.traffic is None:
        return _unanswered(DESIGN, found, "No device is special in DDP: each rank keeps its own copy of the weights.")
    many = bytes_row(found.traffic, DEVICES[-1])
    number = (
        f"By prediction {said(many[1], 'MB')} pass DataParallel's first device in a step of {DEVICES[-1]} devices "
        f"where copies are plain, {said(many[2], 'MB')} where NCCL passes them on, and {said(many[3], 'MB')} each "
        "rank of DDP."
    )
    overlap = (
        f", and does so while backward still computes: that hides {hidden_text(found.steps)} % of the all-reduces here"
        if any(one.all_reduces for one in found.steps)
        else ""
    )
    why = (
        "So bytes alone do not decide. DataParallel sends the weights before forward and the gradients after backward, "
        "when nothing computes, and everything waits for one process and one device. In DDP each rank keeps and "
        "updates its own weights, so only gradients travel; in a ring a rank sends less than twice their size and "
        f"receives as much, however many ranks there are{overlap}."
    )
    rests = (TABLE, BYTES_TABLE, *((STEP,) if overlap else ()))
    faster = found.ratio is not None and found.ratio.high < 1
    verdict = (
        _faster_words(evidence, found) if faster else "No device is special in DDP, so none becomes the bottleneck."
    )
    return DESIGN.answer(
        verdict,
        number,
        why,
        "DDP also runs over several hosts, where DataParallel cannot.",
        decided="DataParallel is called faster where the interval of the ratio of both steps lies below 1.",
        rests_on=rests,
        shaken_by=shaken_by(evidence, *EXPERIMENTS.values()),
    )


def _faster_words(evidence: Evidence, found: Both) -> str:
    """Returns why DataParallel is faster on this machine, although DDP scales better."""
    times = f"({said(found.dp.step, 'ms')} against {said(found.ddp.step, 'ms')} a step)"
    if on_gpus(evidence) and found.emulated:
        because = (
            "both share one GPU, on which DataParallel only copies, while DDP's two processes take turns and exchange "
            "gradients through the host"
        )
    elif on_gpus(evidence):
        because = "the model is so small that DDP's all-reduce costs more than DataParallel's copies"
    else:
        because = (
            "its devices are threads of one process and pass memory to each other, while DDP's processes send "
            "gradients through gloo"
        )
    return (
        f"Here DataParallel is faster {times}, because {because}; DDP still scales better, since no device is "
        "special in it."
    )


def _acceptable(evidence: Evidence, found: Both) -> Answer:
    """Returns the answer, by the interval of the ratio of both steps and by where it was measured."""
    why = "It needs one process and one line of code, and its copies weigh little beside much computing."
    practice = (
        "The model must fit each GPU, and the batch should be large. For anything that runs for hours, for more than "
        "two or three GPUs, or for several machines: DDP."
    )
    if found.ratio is None:
        return ACCEPTABLE.answer(
            "For a short trial on few GPUs of one machine.",
            "Not measured here: the two step times are not both there.",
            why,
            practice,
            rests_on=(TABLE,),
        )
    word = equivalent(found.ratio, MARGIN)
    emulated = " (emulated)" if found.dp.mark == "emulated" else ""
    times = f"its step{emulated} takes {said_with_interval(found.ratio_cell)} times DDP's"
    if found.ratio.high < 1:
        verdict = "For a short trial on few GPUs of one machine, as here, where it is even faster."
    elif word == "equal within margin":
        verdict = "For a short trial on few GPUs of one machine, as here, where both are equal within 10 %."
    elif found.ratio.low > 1:
        verdict = "For a short trial on few GPUs, where its longer step does not matter."
    else:
        verdict = "For a short trial on few GPUs of one machine."
    stand_in = (
        " The devices here are stand-ins, so measure on real GPUs before relying on it." if found.emulated else ""
    )
    return ACCEPTABLE.answer(
        verdict,
        f"Here {times}.{stand_in}",
        why,
        practice,
        decided=f"The interval of the ratio of both steps: below 1, above 1, or within {MARGIN:.0%} of it.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, *EXPERIMENTS.values()),
    )


def _unanswered(question: Question, found: Both, why: str = "") -> Answer:
    missing = [
        words
        for words, is_missing in (
            ("no usable run of DataParallel", found.dp.row is None),
            ("no usable run of DDP", found.ddp.row is None),
            ("no inspected run of DataParallel, which shows work, memory and copies by device", not found.dp.devices),
        )
        if is_missing
    ]
    reason = f"There is {listed(missing)}." if missing else "Work and memory by device were not recorded."
    return question.answer("The numbers for this are missing.", reason, why, rests_on=(TABLE,))
