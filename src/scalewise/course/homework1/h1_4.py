"""H1.4: DataParallel against DDP: which device works and holds memory, how steps vary, and when messages are sent."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.phrases import listed
from scalewise.analysis.ratio import equivalent
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.trace import RankStep, profiled_step
from scalewise.course.arms import step_ratio
from scalewise.course.captions import setting
from scalewise.course.homework1.devices import DDP, DP, Device, devices_of_ddp, devices_of_dp
from scalewise.course.homework1.doubts import shaken_by
from scalewise.course.homework1.h1_4_figures import (
    MEGA,
    OVER_TIME,
    STEP,
    STRIPS,
    Shown,
    hidden_text,
    over_time_figure,
    step_figure,
    strips_figure,
)
from scalewise.course.homework1.rows import EQUAL, MARGIN, again, on_gpus, rows_of, volume
from scalewise.course.seen import refusals
from scalewise.report.cells import (
    empty_cell,
    estimate_cell,
    mark_of,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import (
    Answer,
    Block,
    Cell,
    Column,
    Mark,
    Section,
    Table,
)

ORDER, ROW = 40, "H1.4"
TABLE, BYTES_TABLE = "h1-4-dp-ddp", "h1-4-bytes"
EXPERIMENTS = {DP: "data-parallel", DDP: "ddp"}
BOUND = "Why is DataParallel bound by GPU 0?"
COMPARED = "How do utilisation, step-time variance and memory compare?"
DESIGN = "Why does DDP scale better by design?"
ACCEPTABLE = "When is DataParallel still acceptable?"
HINTS = {
    BOUND: "the part of the work and the memory of the first device, and the bytes through it",
    COMPARED: "the columns of the table, and the distribution of step times",
    DESIGN: "the bytes through the busiest device on 2, 4 and 8 devices, and when DDP sends",
    ACCEPTABLE: "both step times and their ratio",
}
MORE = 1.05  # the first device stands out if it does or holds this many times as much as the others
DEVICES = (2, 4, 8)


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
    devices: tuple[Device, ...]
    utilised_by: str  # how the utilisation was measured
    held_by: str  # how the memory was measured

    @property
    def first_cells(self) -> tuple[Cell, Cell]:
        """The share of the work and the memory of the first device."""
        return _device_cells(self.devices[0], self.mark)[1:3] if self.devices else (empty_cell(""), empty_cell(""))


@dataclass(frozen=True)
class Both:
    """The data for H1.4."""

    dp: Method
    ddp: Method
    ratio: Estimate | None  # step of DP over step of DDP
    through_first: float | None  # bytes through the first device of DP in a step, in and out
    reduced: float | None  # bytes that DDP all-reduces in a step
    steps: tuple[RankStep, ...]  # one step of DDP, rank by rank
    emulated: bool

    @property
    def ratio_cell(self) -> Cell:
        """The step of DataParallel over that of DDP."""
        return estimate_cell(self.ratio)


def build(evidence: Evidence) -> Section:
    """Builds the section: tables, distribution, one step of DDP, utilisation over time, answers."""
    found = both(evidence)
    blocks: list[Block] = [_table(evidence, found)]
    if found.reduced and found.through_first:
        blocks.append(_bytes_table(found))
    shown = tuple(Shown(one.name, one.row, one.mark) for one in (found.dp, found.ddp))
    figures = strips_figure(evidence, shown), over_time_figure(evidence, shown), step_figure(found.steps)
    blocks += [figure for figure in figures if figure is not None]
    answers = _bound(found), _compared(found), _design(evidence, found), _acceptable(found)
    return Section("h1-4", "DataParallel and DistributedDataParallel", (*blocks, *answers))


def both(evidence: Evidence) -> Both:
    """Returns the data from the experiments data-parallel and ddp, their inspected runs and samples."""
    rows = {name: _row(evidence, experiment) for name, experiment in EXPERIMENTS.items()}
    inspected = evidence.inspection(EXPERIMENTS[DP])
    emulated = bool(inspected and inspected.emulated) or any(
        row is not None and row.mark == "emulated" for row in rows.values()
    )
    run = next(
        (run for run in evidence.loaded.runs if run.spec.inspected and run.spec.experiment == EXPERIMENTS[DDP]), None
    )
    steps = profiled_step(run) if run is not None and run.measured else ()
    dp = _method(evidence, DP, rows[DP], devices_of_dp(evidence, rows[DP], inspected), emulated)
    ddp = _method(evidence, DDP, rows[DDP], devices_of_ddp(evidence, rows[DDP]), emulated)
    first = inspected.device_memory[0].device if inspected and inspected.device_memory else ""
    moved = sum(one.bytes for one in inspected.transfers if first in (one.source, one.target)) if inspected else 0
    ddp_row = rows[DDP]
    reduced = volume(ddp_row)[1] if ddp_row is not None else 0.0
    return Both(dp, ddp, step_ratio(evidence, rows[DP], rows[DDP]), moved or None, reduced or None, steps, emulated)


def _row(evidence: Evidence, experiment: str) -> ArmRow | None:
    return next((row for row in rows_of(evidence, experiment) if row.step_seconds is not None), None)


def _method(evidence: Evidence, name: str, row: ArmRow | None, devices: tuple[Device, ...], emulated: bool) -> Method:
    mark = mark_of(row, emulated=emulated and name == DP)
    step = again(evidence).widened(row.step_seconds) if row else None
    relative = row.variation if row else None
    deviation = relative * step.value if relative is not None and step is not None else None
    why = "no usable run"
    by = ("nvidia-smi", "torch's allocator") if on_gpus(evidence) else ("busy cores", "tensors of an inspected step")
    return Method(
        name=name,
        row=row,
        mark=mark,
        step=estimate_cell(step, 1e3, mark=mark, why_empty=why),
        deviation=number_cell(deviation, 1e3, mark=mark, why_empty=why),
        variance=number_cell(deviation**2 if deviation is not None else None, 1e6, mark=mark, why_empty=why),
        relative=number_cell(relative, 100, mark=mark, why_empty=why),
        devices=devices,
        utilised_by=by[0],
        held_by=by[1],
    )


def _table(evidence: Evidence, found: Both) -> Table:
    columns = (
        Column("Method", numeric=False),
        Column("Device", numeric=False),
        Column("Part of the work", "%"),
        Column("Memory/GPU", "MB"),
        Column("Utilisation", "%"),
        Column("Time/step", "ms"),
        Column("Standard deviation", "ms"),
        Column("Variance", "ms²"),
        Column("Deviation / mean", "%"),
    )
    rows, names = [], []
    for method in (found.dp, found.ddp):
        devices = method.devices or (Device(method.name, "all", None, None, None),)
        for index, device in enumerate(devices):
            whole = (method.step, method.deviation, method.variance, method.relative)
            same = tuple(empty_cell("the same step as above", method.mark) for _ in whole)
            head = text_cell(method.name if not index else "", mark=method.mark)
            rows.append((head, *_device_cells(device, method.mark), *(same if index else whole)))
            names.append(method.row.run_names if method.row else ())
    ratio = (
        f" DataParallel's step takes {said_with_interval(found.ratio_cell)} times DDP's."
        if found.ratio is not None
        else ""
    )
    return Table(
        TABLE,
        "DataParallel against DDP, device by device",
        columns,
        tuple(rows),
        (*_notes(found), *refusals(evidence, *EXPERIMENTS.values())),
        tuple(names),
        caption=f"{setting(evidence, EXPERIMENTS[DDP], but=('ranks',))}{ratio} {EQUAL}",
    )


def _device_cells(device: Device, mark: Mark) -> tuple[Cell, Cell, Cell, Cell]:
    return (
        text_cell(device.name, mark=mark),
        number_cell(device.part, 100, mark=mark, why_empty="no inspected run"),
        number_cell(device.memory_bytes, MEGA, mark=mark, why_empty="no inspected run"),
        number_cell(device.utilisation, 100, mark=mark, why_empty="the same process as above, or not recorded"),
    )


def _notes(found: Both) -> tuple[str, ...]:
    notes = [f"Utilisation: {found.ddp.utilised_by}, median while steps were made. Memory: {found.dp.held_by}."]
    if found.dp.utilised_by == "busy cores":
        notes = [
            "Utilisation: share of the process's cores that were busy, median while steps were made; DataParallel "
            "is one "
            f"process on all of them. Memory: {found.dp.held_by}."
        ]
    notes.append("Part of the work: time in which the device computes layers; DDP's ranks do equal work by design.")
    if found.emulated:
        notes.append(
            "Emulated: logical devices, or ranks that share a GPU, stand for GPUs. Copies, memory and order are "
            "real, the "
            "times are those of shared hardware."
        )
    return tuple(notes)


def _bytes_table(found: Both) -> Table:
    """Returns the bytes through the busiest device, in and out, for several numbers of devices."""
    assert found.reduced and found.through_first, "the table is only made where both were counted"
    v = found.reduced
    dp = (found.through_first, *(found.through_first * (n - 1) for n in DEVICES[1:]))
    ddp = tuple(4 * (n - 1) / n * v for n in DEVICES)
    columns = (Column("MB a step", numeric=False), *(Column(f"n = {n}") for n in DEVICES))
    rows = (
        (
            text_cell(DP),
            *(number_cell(one, MEGA) for one in dp),
        ),
        (
            text_cell(DDP),
            *(number_cell(one, MEGA) for one in ddp),
        ),
    )
    caption = (
        "DataParallel: weights and inputs go out to every other device, outputs and gradients come back: (n − 1) "
        "times as "
        "much for n devices. DDP: a ring sends and receives 2 (n − 1)/n times the gradients. Counted for 2 devices, "
        "computed for more."
    )
    return Table(BYTES_TABLE, "Through the busiest of n devices, in and out", columns, rows, caption=caption)


def _bound(found: Both) -> Answer:
    """Returns the answer: bound if the first device does or holds more than each other one; else it does not show."""
    devices = found.dp.devices
    why = (
        "It scatters the batch, copies the weights to all others in every step, gathers their outputs, computes "
        "the loss, "
        "adds up the gradients and updates the weights; meanwhile the others wait for it."
    )
    practice = "So its memory limits the batch, its link limits the speed, and each further device adds to both."
    if len(devices) < 2:
        return _unanswered(BOUND, found, why)
    first, others = devices[0], devices[1:]
    work = (first.part or 0.0) > MORE * max(one.part or 0.0 for one in others)
    memory = (first.memory_bytes or 0.0) > MORE * max(one.memory_bytes or 0.0 for one in others)
    cells, other = _device_cells(first, found.dp.mark), _device_cells(others[0], found.dp.mark)
    number = (
        f"It does {said(cells[1], '%')} of the computing and holds {said(cells[2], 'MB')}; the next does "
        f"{said(other[1], '%')} and holds {said(other[2], 'MB')}."
    )
    if work or memory:
        more = listed([word for word, one in (("more work", work), ("more memory", memory)) if one])
        verdict = f"Because the first device has {more} than any other, and all traffic passes through it."
    else:
        verdict = (
            "Because all traffic passes through it; that it computes or holds more than the others does not show here."
        )
    return Answer(
        ROW,
        BOUND,
        verdict,
        number,
        why,
        practice,
        decided=f"More: above {MORE} times the most of any other device, in an inspected step.",
        rests_on=(TABLE,),
        hint=HINTS[BOUND],
    )


def _compared(found: Both) -> Answer:
    """Returns the answer: the three columns that the sheet asks for, in words."""
    dp, ddp = found.dp, found.ddp
    if dp.row is None or ddp.row is None or dp.relative.number is None or ddp.relative.number is None:
        return _unanswered(COMPARED, found)
    steadier = dp if dp.relative.number < ddp.relative.number else ddp
    other = ddp if steadier is dp else dp
    number = (
        f"The steps of {steadier.name} vary by {said(steadier.relative, '%')} of their mean, those of {other.name} "
        f"by {said(other.relative, '%')}."
    )
    alike = (other.relative.number or 0.0) <= (1 + MARGIN) * (steadier.relative.number or 0.0)
    verdict = "Both have equally steady steps." if alike else f"{steadier.name} has the steadier steps."
    memory = ""
    if dp.devices and ddp.devices and dp.devices[0].memory_bytes and ddp.devices[0].memory_bytes:
        memory = (
            f"DataParallel's first device holds {said(dp.first_cells[1], 'MB')}, a rank of DDP "
            f"{said(ddp.first_cells[1], 'MB')}: DDP keeps buckets beside its gradients, on every device alike."
        )
    used = _used_words(found)
    why = (
        "A step of DDP ends when the slowest rank has exchanged its gradients, so a delay on one rank makes the "
        "step of all ranks longer."
        if steadier is dp
        else "DataParallel's single process hands out the batch, starts every device and collects the results, so a "
        "delay in that process delays all devices."
    )
    return Answer(
        ROW,
        COMPARED,
        verdict,
        number,
        why,
        f"{memory} {used}".strip(),
        decided="Standard deviation over mean of the steps after warm-up, mean over runs; equally steady: within "
        f"{MARGIN:.0%} of each other. Utilisation and memory as in the table's notes.",
        rests_on=(TABLE, STRIPS, OVER_TIME),
        hint=HINTS[COMPARED],
    )


def _used_words(found: Both) -> str:
    dp, ddp = (one.devices[0] if one.devices else None for one in (found.dp, found.ddp))
    if dp is None or ddp is None or dp.utilisation is None or ddp.utilisation is None:
        return ""
    cells = _device_cells(dp, found.dp.mark)[3], _device_cells(ddp, found.ddp.mark)[3]
    return f"Utilisation is {said(cells[0], '%')} for DataParallel and {said(cells[1], '%')} for DDP's rank 0."


def _design(evidence: Evidence, found: Both) -> Answer:
    """Returns the answer, by the bytes through the busiest device; if DataParallel is faster here, that comes first."""
    if not found.reduced or not found.through_first:
        return _unanswered(DESIGN, found, "No device is special in DDP: each rank keeps its own copy of the weights.")
    rows = _bytes_table(found).rows
    number = (
        f"On 8 devices {said(rows[0][3], 'MB')} would pass DataParallel's first device in a step, and "
        f"{said(rows[1][3], 'MB')} each rank of DDP."
    )
    overlap = (
        f" It sends while backward still computes, which hides {hidden_text(found.steps)} % of the all-reduces here."
        if any(one.all_reduces for one in found.steps)
        else ""
    )
    why = (
        "Each rank keeps its weights and updates them itself, so only gradients travel, and in a ring each rank "
        "passes on "
        f"less than twice their size, however many ranks there are.{overlap}"
    )
    rests = (TABLE, BYTES_TABLE, *((STEP,) if overlap else ()))
    faster = found.ratio is not None and found.ratio.high < 1
    verdict = (
        _faster_words(evidence, found) if faster else "No device is special in DDP, so none becomes the bottleneck."
    )
    return Answer(
        ROW,
        DESIGN,
        verdict,
        number,
        why,
        "With two devices both move the same bytes: the design pays from three devices on, and over several hosts, "
        "where "
        "DataParallel cannot run.",
        decided="DataParallel is called faster where the interval of the ratio of both steps lies below 1.",
        rests_on=rests,
        shaken_by=shaken_by(evidence, *EXPERIMENTS.values()),
        hint=HINTS[DESIGN],
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
            "gradients "
            "through gloo"
        )
    return (
        f"Here DataParallel is faster {times}, because {because}; DDP still scales better, since no device is "
        "special in "
        "it."
    )


def _acceptable(found: Both) -> Answer:
    """Returns the answer, by the interval of the ratio of both steps and by where it was measured."""
    why = "It needs one process and one line of code, and its copies weigh little beside much computing."
    practice = (
        "For a first trial on the few GPUs of one machine, with a model that fits each of them and a large batch. For "
        "anything that runs for hours, for more than two or three GPUs, or for several machines: DDP."
    )
    if found.ratio is None:
        return Answer(
            ROW,
            ACCEPTABLE,
            "For a short trial on few GPUs of one machine.",
            "Not measured here: the two step times are not both there.",
            why,
            practice,
            rests_on=(TABLE,),
            hint=HINTS[ACCEPTABLE],
        )
    word = equivalent(found.ratio, MARGIN)
    times = f"its step takes {said_with_interval(found.ratio_cell)} times DDP's"
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
    return Answer(
        ROW,
        ACCEPTABLE,
        verdict,
        f"Here {times}.{stand_in}",
        why,
        practice,
        decided=f"The interval of the ratio of both steps: below 1, above 1, or within {MARGIN:.0%} of it.",
        rests_on=(TABLE,),
        hint=HINTS[ACCEPTABLE],
    )


def _unanswered(question: str, found: Both, why: str = "") -> Answer:
    missing = [
        words
        for words, hole in (
            ("no usable run of DataParallel", found.dp.row is None),
            ("no usable run of DDP", found.ddp.row is None),
            ("no inspected run of DataParallel, which shows work, memory and copies by device", not found.dp.devices),
        )
        if hole
    ]
    reason = f"There is {listed(missing)}." if missing else "Work and memory by device were not recorded."
    return Answer(
        ROW, question, "The numbers for this are missing.", reason, why, rests_on=(TABLE,), hint=HINTS[question]
    )
