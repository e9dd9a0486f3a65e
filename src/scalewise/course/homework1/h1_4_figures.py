"""The figures of H1.4: all step times of both methods, utilisation over time, and one step of DDP rank by rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.trace import RankStep, profiled_step
from scalewise.course.homework1.busy_devices import DDP, DP, training_samples
from scalewise.course.homework1.comparable_rows import FIGURE_WIDTH, measured_runs, on_gpus
from scalewise.course.homework1.steadiness import Steadiness
from scalewise.course.selected_arms import figures_of
from scalewise.report.cells import number_cell, said
from scalewise.report.document import Figure, Lane, LinePlot, Mark, PlotSeries, Sample, StripPlot, TimelinePlot
from scalewise.units import listed

STRIPS, STEP, OVER_TIME = "h1-4-step-times", "h1-4-ddp-step", "h1-4-utilisation"
LEAST_SAMPLES = 4  # samples are taken twice a second; fewer do not make a curve
MEGA = 1e-6


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
        f"Each bucket ({sizes} MB) is all-reduced as soon as its gradients are there; {hidden_text(steps)} % of that "
        "time lies "
        "under a backward that still computes. One step that was looked at closely, which makes it slower than the "
        "timed ones."
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
