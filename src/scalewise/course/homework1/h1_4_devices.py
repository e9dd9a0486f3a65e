"""H1.4, what was seen of both methods: work and memory of each device, steadiness, bytes, and the figures of these."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median

import numpy as np

from scalewise.analysis.estimate import Estimate, Floats, RunMedian, estimate, exact
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import Inspection, union
from scalewise.analysis.ratio import Equivalence
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.trace import RankStep, profiled_step
from scalewise.course.homework1.comparable_rows import FIGURE_WIDTH, measured_runs, on_gpus
from scalewise.course.measured_arms import COURSE_LEVEL, figures_of
from scalewise.records.inspection import BusyRow
from scalewise.records.load import Run
from scalewise.report.cells import count_cell, number_cell, said
from scalewise.report.document import (
    Cell,
    Column,
    Figure,
    Lane,
    LinePlot,
    Mark,
    PlotSeries,
    Sample,
    StripPlot,
    Table,
    TimelinePlot,
)
from scalewise.units import NANO, listed

DP, DDP = "DataParallel", "DDP"
BLOCK = 20  # most steps of a block; blocks are drawn and not single steps, since neighbouring steps resemble each other
DRAWS = 1000
LEAST_BLOCKS = 4
LEAST_STEPS = 8
BYTES_TABLE = "h1-4-bytes"
DEVICES = (2, 4, 8)
STRIPS, STEP, OVER_TIME = "h1-4-step-times", "h1-4-ddp-step", "h1-4-utilisation"
LEAST_SAMPLES = 4  # samples are taken twice a second; fewer do not make a curve
MEGA = 1e-6


@dataclass(frozen=True)
class Device:
    """One device of one method."""

    method: str
    name: str
    part: Estimate | None  # of the layers' time on all devices of the method; DDP's is that of its samples
    own_seconds: float | None  # time in which it alone works: the optimizer of DataParallel
    utilisation: float | None
    memory_bytes: float | None


def devices_of_dp(evidence: Evidence, row: ArmRow | None, inspected: Inspection | None) -> tuple[Device, ...]:
    if row is None or inspected is None:
        return ()
    steps = _timed_steps(evidence, inspected)
    memory = {one.device: float(one.peak_bytes) for one in inspected.device_memory}
    names = sorted({*(one.device for one in inspected.timeline), *memory})
    used = _utilisation(evidence, row)
    return tuple(
        Device(DP, f"device {index}", _part(steps, name), _own_seconds(steps, name), used.get(index), memory.get(name))
        for index, name in enumerate(names)
    )


def _timed_steps(evidence: Evidence, inspected: Inspection) -> list[tuple[BusyRow, ...]]:
    """Returns every inspected step, or the one that the figures show if there is no other: one step says little."""
    run = evidence.run(inspected.run)
    rows = [row for rank in (run.ranks if run else ()) for row in rank.inspection if isinstance(row, BusyRow)]
    rows = rows or list(inspected.timeline)
    return [tuple(row for row in rows if row.step == step) for step in sorted({row.step for row in rows})]


def _part(steps: Sequence[Sequence[BusyRow]], device: str) -> Estimate | None:
    """The device's share of all devices' time for layers: over all steps, with the least and the most of one step."""
    each = [(_layers_ns(rows, {device}), _layers_ns(rows, None)) for rows in steps]
    shares = [own / every for own, every in each if every]
    if not shares:
        return None
    whole = sum(own for own, _ in each) / sum(every for _, every in each)
    method = "least and most of one step"
    return Estimate(whole, min(shares), max(shares), len(shares), 1, method, COURSE_LEVEL)


def _layers_ns(rows: Sequence[BusyRow], devices: set[str] | None) -> int:
    """The time of the layers of these devices, or of each device, added up; what runs at the same time counts once."""
    if devices is None:
        return sum(_layers_ns(rows, {name}) for name in {row.device for row in rows})
    found = [row for row in rows if row.device in devices and row.phase != "optimizer"]
    return sum(end - begin for begin, end in union((row.begin_ns, row.end_ns) for row in found))


def _own_seconds(steps: Sequence[Sequence[BusyRow]], device: str) -> float | None:
    """The median time of the optimizer on this device, which works where the weights are; None if none was seen."""
    if not any(row.phase == "optimizer" for rows in steps for row in rows):
        return None
    whole = [sum(row.end_ns - row.begin_ns for row in rows if _updates(row, device)) for rows in steps]
    return median(whole) * NANO


def _updates(row: BusyRow, device: str) -> bool:
    return row.device == device and row.phase == "optimizer"


def devices_of_ddp(evidence: Evidence, row: ArmRow | None) -> tuple[Device, ...]:
    """Returns DDP's devices, with memory as for DataParallel: tensors on logical devices, else the allocator's."""
    if row is None:
        return ()
    used = _utilisation(evidence, row)
    inspected = evidence.inspection("ddp")
    tensors = float(inspected.memory.peak_bytes if inspected and inspected.memory else 0)
    held = tensors or (float(inspected.peak_bytes or 0) if inspected else 0.0)
    peaks = [_peak(evidence, row, rank) for rank in range(row.ranks)]
    return tuple(
        Device(DDP, f"rank {rank}", exact(1 / row.ranks), None, used.get(rank), held or peaks[rank] or None)
        for rank in range(row.ranks)
    )


def _peak(evidence: Evidence, row: ArmRow, rank: int) -> float:
    found = [
        one.ranks[rank].cuda_peak_allocated_bytes or 0 for one in figures_of(evidence, row) if rank < len(one.ranks)
    ]
    return median(found) if found else 0.0


def _utilisation(evidence: Evidence, row: ArmRow) -> dict[int, float]:
    """Returns utilisation by device: of a GPU as nvidia-smi reports it, of a rank's cores, or of all cores (0)."""
    found: dict[int, list[float]] = {}
    for run in measured_runs(evidence, row):
        for _, values in training_samples(run):
            for index, value in values.items():
                found.setdefault(index, []).append(value)
    return {index: median(values) for index, values in found.items()}


def training_samples(run: Run) -> list[tuple[float, dict[int, float]]]:
    """Returns (seconds, utilisation by device) while steps were made; a device is a GPU, or a rank's cores."""
    made = [min(row.rank_steps, default=-1) for row in run.samples]
    rows = [row for row, before in zip(run.samples[1:], made, strict=False) if before != 0]
    if run.spec.device == "cuda":
        return [
            (row.at_seconds, {gpu.index: _share(gpu.utilisation) for gpu in row.gpus if gpu.utilisation is not None})
            for row in rows
        ]
    cores = [max(1, len(share)) for share in run.spec.shares]
    if run.spec.mode == "python":
        most = len(run.machine.cores) if run.machine else sum(cores)
        cores = [max(cores[0] if cores else 1, min(2, most))]
    return [
        (row.at_seconds, {rank: busy / cores[rank] for rank, busy in enumerate(row.rank_busy) if rank < len(cores)})
        for row in rows
    ]


def _share(utilisation: float) -> float:
    return utilisation / 100 if utilisation > 1 else utilisation


@dataclass(frozen=True)
class Steadiness:
    """The variation of the steps of several runs around the mean of their own run, in seconds."""

    variance: float  # mean over the runs
    relative: Estimate  # standard deviation over mean
    box_seconds: float  # the middle half of all steps, which a few long ones do not touch

    @property
    def deviation(self) -> float:
        """The root of the variance."""
        return sqrt(self.variance)


def steadiness(runs: Sequence[Sequence[float]]) -> Steadiness | None:
    """Returns the steadiness of the steps after warm-up, given run by run; None if no run is long enough."""
    known = [np.array(steps, dtype=np.float64) for steps in runs if len(steps) >= LEAST_STEPS]
    if not known:
        return None
    variance = float(np.mean([steps.var() for steps in known]))
    middle = float(np.mean([steps.mean() for steps in known]))
    every = np.concatenate(known)
    return Steadiness(
        variance=variance,
        relative=_around(sqrt(variance) / middle, known),
        box_seconds=float(np.quantile(every, 0.75) - np.quantile(every, 0.25)),
    )


def _around(value: float, runs: Sequence[Floats]) -> Estimate:
    """Returns the value with an interval, from blocks of each run drawn again and from the spread between runs."""
    drawn = [_of_run(steps, seed) for seed, steps in enumerate(runs)]
    if min(one.low for one in drawn) <= 0:
        steps = sum(one.steps for one in drawn)
        return Estimate(value, value, value, steps, len(drawn), "steps that do not vary", COURSE_LEVEL)
    found = estimate(drawn, level=COURSE_LEVEL)
    low, high = (value * end / found.value for end in (found.low, found.high))
    return replace(found, value=value, low=low, high=high, method=f"blocks of steps drawn again; {found.method}")


def _of_run(steps: Floats, seed: int) -> RunMedian:
    """The relative deviation of one run; the draws are the same in every report of these steps."""
    length = min(BLOCK, len(steps) // LEAST_BLOCKS)
    blocks = steps[: len(steps) // length * length].reshape(-1, length)
    chosen = np.random.default_rng(seed).integers(0, len(blocks), (DRAWS, len(blocks)))
    again = blocks[chosen].reshape(DRAWS, -1)
    low, high = np.quantile(again.std(axis=1) / again.mean(axis=1), (0.025, 0.975))
    value = float(steps.std() / steps.mean())
    return RunMedian(value, min(float(low), value), max(float(high), value), len(steps), COURSE_LEVEL)


def steadier(word: Equivalence, times: float) -> str:
    """A sentence on which method has the steadier steps; `times` is DataParallel's relative deviation over DDP's."""
    if word == "cannot tell":
        return "Which of them has the steadier steps cannot be told from these runs."
    if word == "equal within margin":
        return "Both have equally steady steps."
    return f"{DDP if times > 1 else DP} has the steadier steps."


def why_steadier(word: Equivalence, times: float) -> str:
    """The reason why steps can vary: for the unsteadier method if they differ, else for both."""
    if word != "different":
        return "A delay in DataParallel's one process delays all devices; in DDP a delay on any rank delays all ranks."
    if times > 1:
        return (
            "DataParallel's single process hands out the batch, starts every device and collects the results, so a "
            "delay in that process delays all devices."
        )
    return (
        "A step of DDP ends when the slowest rank has exchanged its gradients, so a delay on one rank makes the step "
        "of all ranks longer."
    )


@dataclass(frozen=True)
class DeviceTraffic:
    """The bytes that pass the busiest device in a step, in and out."""

    through_first: float  # of DataParallel on two devices, counted
    reduced: float  # by DDP, counted: as many bytes as the gradients have
    mark: Mark  # of what DataParallel copied

    def by_copies(self, devices: int) -> float:
        """The bytes if weights go to every other device and gradients come back from each, one copy after the other."""
        return 2 * self.reduced * (devices - 1) + self._batch(devices)

    def by_nccl(self, devices: int) -> float:
        """The bytes if NCCL passes weights and gradients on from device to device: the first does so once."""
        return 2 * self.reduced + self._batch(devices)

    def by_ring(self, devices: int) -> float:
        """The bytes of a ring: 2 (N - 1)/N times the gradients out, and as much in."""
        return 4 * (devices - 1) / devices * self.reduced

    def _batch(self, devices: int) -> float:
        """The bytes of inputs, outputs and the outputs' gradients; all but the first device's own part are sent."""
        counted = max(0.0, self.through_first - 2 * self.reduced)
        return counted * 2 * (devices - 1) / devices


def bytes_table(traffic: DeviceTraffic) -> Table:
    """Returns the table, with one row for each number of devices."""
    columns = (
        Column("Devices N"),
        Column(f"{DP}, plain copies", "MB"),
        Column(f"{DP}, NCCL", "MB"),
        Column(f"{DDP}, ring", "MB"),
    )
    caption = (
        f"In and out, added up. {DP}: weights go out and gradients come back, by plain copies to each of the N − 1 "
        "other devices, or once where PyTorch can take NCCL's broadcast and reduce; so do parts of the batch. "
        f"{DDP}: each rank of a ring sends 2 (N − 1)/N times the gradients and receives as much. Copies and gradients "
        "were counted for N = 2; all else is predicted from that."
    )
    rows = tuple(bytes_row(traffic, count) for count in DEVICES)
    return Table(BYTES_TABLE, "Through the busiest of N devices in a step", columns, rows, caption=caption)


def bytes_row(traffic: DeviceTraffic, devices: int) -> tuple[Cell, ...]:
    """Returns the row for that many devices."""
    counted = devices == DEVICES[0]
    mark: Mark = "measured" if counted else "predicted"
    return (
        count_cell(devices, mark=mark),
        number_cell(traffic.by_copies(devices), MEGA, mark=traffic.mark if counted else "predicted"),
        number_cell(traffic.by_nccl(devices), MEGA, mark="predicted"),
        number_cell(traffic.by_ring(devices), MEGA, mark="predicted"),
    )


@dataclass(frozen=True)
class Shown:
    """One of the two methods, as the figures show it."""

    name: str
    row: ArmRow | None
    mark: Mark
    steady: Steadiness | None = None


def strips_figure(evidence: Evidence, methods: Sequence[Shown]) -> Figure | None:
    """Returns a figure of all steps of both methods."""
    samples = []
    for method in methods:
        steps = [1e3 * one for run in figures_of(evidence, method.row) for one in run.step_seconds[run.warmup_steps :]]
        if steps:
            samples.append(Sample(method.name, tuple(steps), method.mark))
    if len(samples) < 2:
        return None
    caption = "Every step after warm-up, all runs; box: quartiles, line: median."
    boxes = [f"{said(number_cell(one.steady.box_seconds, 1e3), 'ms')} ({one.name})" for one in methods if one.steady]
    caption += f" The boxes are {listed(boxes)} wide." if boxes else ""
    return Figure(
        STRIPS, "Distribution of step times", caption, StripPlot(tuple(samples), "step time (ms)"), FIGURE_WIDTH
    )


def over_time_figure(evidence: Evidence, methods: Sequence[Shown]) -> Figure | None:
    """Returns a figure of the utilisation of every device while steps were made."""
    series: list[PlotSeries] = []
    for method in methods:
        runs = measured_runs(evidence, method.row) if method.row else []
        sampled = max((training_samples(run) for run in runs), key=len, default=[])
        indices = sorted({index for _, values in sampled for index in values})
        if len(sampled) < LEAST_SAMPLES:
            continue
        begin = sampled[0][0]
        for index in indices:
            points = [(at - begin, 100 * values[index]) for at, values in sampled if index in values]
            name = _device_name(method, index, len(indices), on_gpus(evidence))
            series.append(PlotSeries(name, tuple(at for at, _ in points), tuple(value for _, value in points)))
    if not series:
        return None
    what = "nvidia-smi's utilisation" if on_gpus(evidence) else "share of the process's cores that are busy"
    plot = LinePlot("seconds of training", "utilisation (%)", tuple(series))
    return Figure(OVER_TIME, "Utilisation over time", f"Sampled twice a second: {what}.", plot, FIGURE_WIDTH)


def _device_name(method: Shown, index: int, count: int, gpus: bool) -> str:
    short = "DP" if method.name == DP else DDP
    if gpus:
        return f"{short}, GPU {index}" if count > 1 else f"{short}, its GPU"
    return f"{short}, rank {index}" if count > 1 else f"{short}, both devices"


def step_figure(steps: Sequence[RankStep]) -> Figure | None:
    """Returns a figure of one step: when each rank computes and when its all-reduces run."""
    if not any(one.all_reduces for one in steps):
        return None
    lanes = []
    for one in steps:
        computes = []
        for name, begin, end in one.phases:
            if name == "backward" and begin < one.last_issue < end:
                computes.append((1e3 * begin, 1e3 * one.last_issue, "backward"))
            elif name in ("forward", "backward", "optimizer"):
                computes.append((1e3 * begin, 1e3 * end, name))
        lanes.append(Lane(f"rank {one.rank} computes", tuple(computes)))
        for number, (begin, end, _) in enumerate(one.all_reduces, 1):
            lanes.append(Lane(f"rank {one.rank}, bucket {number}", ((1e3 * begin, 1e3 * end, "communication"),)))
    sizes = ", ".join(f"{size * MEGA:.2f}" for _, _, size in steps[0].all_reduces)
    caption = (
        f"Each bucket ({sizes} MB) is all-reduced as soon as its gradients are there; {hidden_text(steps)} % of "
        "that time lies under a backward that still computes. One step that was looked at closely, which makes it "
        "slower than the timed ones."
    )
    return Figure(STEP, "One step of DDP", caption, TimelinePlot(tuple(lanes), "ms since the first rank began"), 1.0)


def ddp_steps(evidence: Evidence) -> tuple[RankStep, ...]:
    """Returns the step of DDP whose messages were seen, rank by rank; empty if there is none."""
    run = next((run for run in evidence.loaded.runs if run.spec.inspected and run.spec.experiment == "ddp"), None)
    return profiled_step(run) if run is not None and run.measured else ()


def hidden_text(steps: Sequence[RankStep]) -> str:
    """Returns the percentage of the all-reduces' time that computing hides, mean over the ranks."""
    shares = [one.hidden_share for one in steps if one.all_reduces]
    return f"{100 * sum(shares) / len(shares):.0f}"
