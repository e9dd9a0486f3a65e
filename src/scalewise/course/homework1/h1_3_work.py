"""The work of one rank in a step of H1.3: counted operations, bytes, times and rates."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.link_points import link_points
from scalewise.analysis.propagate import propagate
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.utilisation import Utilisation
from scalewise.course.homework1.comparable_rows import REMOVED, on_gpus, parameters, price, row_at, scaling_rows, volume
from scalewise.course.homework1.predicted_ranks import ArmPrediction
from scalewise.course.selected_arms import COURSE_LEVEL
from scalewise.report.cells import count_cell, estimate_cell, number_cell, text_cell
from scalewise.report.document import BarPlot, Cell, Column, Figure, Mark, Part, Table

EXPERIMENT, WORK_TABLE, REACHED = "model-size", "h1-3-work", "h1-3-reached"
FLOAT_BYTES = 4


@dataclass(frozen=True)
class CaseWork:
    """The work of one rank in a step of a case, at the largest available number of ranks."""

    case: str
    ranks: int
    mark: Mark
    samples: Cell  # per rank
    flops: Cell  # GFLOP, counted
    size: Cell  # MB all-reduced
    per_flop: Cell  # bytes per 1000 flop
    computing: Cell  # ms
    communication: Cell  # ms
    share: Cell  # % of the step that is communication
    rate: Cell  # GFLOP/s while computing
    of_peak: Cell  # %
    link_rate: Cell  # GB/s while communicating
    of_link: Cell  # %
    shares: Estimate | None  # communication over the step
    rates: Estimate | None  # flop/s while computing


def case_work(evidence: Evidence, case: str, prediction: ArmPrediction) -> CaseWork | None:
    """Returns the work in a case as measured at the most ranks, else from one rank and the prediction for two."""
    rows = scaling_rows(evidence, EXPERIMENT, case=case)
    row = rows[-1] if rows else None
    if row is None or row.step_seconds is None or not row.samples_per_step:
        return None
    bare = row_at(scaling_rows(evidence, EXPERIMENT, change=REMOVED, case=case), row.ranks)
    step = row.step_seconds.at(COURSE_LEVEL)
    ranks, mark, size = row.ranks, "measured", volume(row)[1]
    computing = bare.step_seconds.at(COURSE_LEVEL) if bare and bare.step_seconds else None
    communication = price(row)
    if row.ranks == 1:
        predicted = next(iter(prediction.rows), None)
        count = parameters(evidence, row)
        if predicted is None or count is None:
            return None
        step, ranks, mark, size = predicted.step, predicted.ranks, "predicted", FLOAT_BYTES * count
        computing, communication = (
            step.times(one) for one in (1 - predicted.communication_share, predicted.communication_share)
        )
    return _work_cells(
        evidence,
        case,
        row,
        ranks,
        "predicted" if mark == "predicted" else "measured",
        size,
        (step, computing, communication),
    )


def _work_cells(
    evidence: Evidence,
    case: str,
    row: ArmRow,
    ranks: int,
    mark: Mark,
    size: float,
    times: tuple[Estimate, Estimate | None, Estimate | None],
) -> CaseWork:
    step, computing, communication = times
    use = _use(evidence, case, row.ranks) or _use(evidence, case, 1)
    flops = _flops_of(use, evidence, ranks)
    samples = (row.samples_per_step or 0.0) / ranks
    shares = propagate(lambda part, whole: part / whole, communication, step) if communication else None
    if mark == "predicted" and communication is not None:
        shares = None
    rate = computing.through(lambda seconds: flops / seconds) if computing and flops else None
    peak = use.peak_flops_per_second if use else None
    link = communication.through(lambda seconds: size / seconds) if communication and communication.low > 0 else None
    best = _best_link(evidence, ranks)
    share = communication.value / step.value if communication else None
    return CaseWork(
        case=case,
        ranks=ranks,
        mark=mark,
        samples=count_cell(round(samples)),
        flops=number_cell(flops, 1e-9, why_empty="not counted: no run was inspected"),
        size=number_cell(size or None, 1e-6, why_empty="nothing was exchanged"),
        per_flop=number_cell(1e3 * size / flops if flops and size else None, why_empty="not counted"),
        computing=estimate_cell(computing, 1e3, mark=mark, why_empty="the step without communication was not measured"),
        communication=estimate_cell(communication, 1e3, mark=mark, why_empty="not measured"),
        share=estimate_cell(shares, 100) if shares else number_cell(share, 100, mark=mark, why_empty="not measured"),
        rate=estimate_cell(rate, 1e-9, mark=mark, why_empty="not counted"),
        of_peak=number_cell(rate.value / peak if rate and peak else None, 100, mark=mark, why_empty="no peak measured"),
        link_rate=estimate_cell(link, 1e-9, mark=mark, why_empty="not measured"),
        of_link=number_cell(link.value / best if link and best else None, 100, mark=mark, why_empty="no link measured"),
        shares=shares,
        rates=rate,
    )


def _use(evidence: Evidence, case: str, ranks: int) -> Utilisation | None:
    """Returns the inspected run of the case, which counts the operations of a step."""
    experiment = evidence.experiment(EXPERIMENT)
    for one in experiment.utilisation if experiment else ():
        run = evidence.run(one.run)
        if (
            run is not None
            and run.spec.axes.get("case") == case
            and run.spec.world_size == ranks
            and one.flops_per_step
        ):
            return one
    return None


def _flops_of(use: Utilisation | None, evidence: Evidence, ranks: int) -> float | None:
    """Returns the operations of one rank's step; they grow with the samples, so a rank's are a share of them."""
    run = evidence.run(use.run) if use else None
    if use is None or run is None or use.flops_per_step is None:
        return None
    return use.flops_per_step * run.spec.world_size / ranks


def _best_link(evidence: Evidence, ranks: int) -> float | None:
    """Returns the most bytes per second that a single all-reduce reached among so many ranks."""
    runs = [run for run in evidence.loaded.runs if run.spec.experiment == "link" and not run.spec.oversubscribed]
    points = [point for run in runs for point in link_points(run) if point.ranks == ranks]
    return max((point.bytes / point.seconds for point in points), default=None)


def work_table(works: Sequence[CaseWork]) -> Table:
    named: tuple[tuple[str, str], ...] = (
        ("samples", "samples"),
        ("flops", "operations (GFLOP)"),
        ("size", "all-reduced (MB)"),
        ("per_flop", "bytes / 1000 flop"),
        ("computing", "computing (ms)"),
        ("communication", "communication (ms)"),
        ("share", "share of the step (%)"),
        ("rate", "computes at (GFLOP/s)"),
        ("of_peak", "of the peak (%)"),
        ("link_rate", "bytes / time (GB/s)"),
        ("of_link", "of the fastest (%)"),
    )
    rows = tuple((text_cell(words), *(getattr(one, name) for one in works)) for name, words in named)
    kept = tuple(row for row in rows if any(cell.number is not None for cell in row[1:]))
    columns = (Column(f"One rank of {works[0].ranks}", numeric=False), *(Column(one.case) for one in works))
    caption = (
        "Computing: the step without communication, optimizer included. Communication: what it adds to the step; "
        "backward hides a part, so bytes over that time are not the link's rate. Operations are counted as torch "
        "carries them out (matrix products; a multiply-add is two). Peak: matrix products alone, measured. Fastest: "
        "the fastest all-reduce of any size, alone."
        if works[0].mark == "measured"
        else "Predicted from one GPU and the data sheet of the link; operations are counted on one GPU."
    )
    return Table(WORK_TABLE, "What a rank computes and exchanges", columns, kept, caption=caption)


def reached_figure(evidence: Evidence, works: Sequence[CaseWork]) -> Figure | None:
    """Returns a figure of how much is reached of what the device and the link can do."""
    bars = [(f"{one.case}, computing", one.of_peak, one.mark) for one in works if one.of_peak.number is not None]
    bars += [(f"{one.case}, exchange", one.of_link, one.mark) for one in works if one.of_link.number is not None]
    if len(bars) < 2:
        return None
    what = "GPU" if on_gpus(evidence) else "core"
    plot = BarPlot(
        tuple(name for name, _, _ in bars),
        (Part("reached", tuple(cell.number or 0.0 for _, cell, _ in bars)),),
        "reached, % of what was measured as possible",
        marks=tuple(mark for _, _, mark in bars),
    )
    caption = (
        f"Computing: GFLOP/s against matrix products alone on one {what}. Exchange: bytes over the time they add, "
        "against the fastest single all-reduce of the same ranks."
    )
    return Figure(REACHED, "Reached against possible", caption, plot, 0.5)
