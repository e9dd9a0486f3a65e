"""What several rows of homework 1 need: usable arms, the link, computing, and the price of communication."""

from scalewise.analysis.communication import BY_REMOVAL
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.link_fit import LinkFit, NoLinkFit, fit_link
from scalewise.analysis.link_points import link_points
from scalewise.analysis.step_model import ComputeLine, ComputePoint, fit_compute
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import listed
from scalewise.records.spec import AxisValue
from scalewise.results.run import Run

REMOVED = "remove_communication"


def scales(row: ArmRow) -> bool:
    """Whether the arm may stand for scaling: measured, neither oversubscribed nor emulated."""
    return row.mark == "measured" and row.step_seconds is not None


def links(evidence: Evidence) -> dict[int, LinkFit | NoLinkFit]:
    """The fitted link for every number of ranks that it was measured with, oversubscribed ones left out."""
    points: dict[int, list[tuple[float, float]]] = {}
    for run in evidence.loaded.runs:
        if run.spec.experiment == "link" and run.measured and not run.spec.oversubscribed and not run.spec.emulated:
            for point in link_points(run):
                points.setdefault(point.ranks, []).append((point.bytes, point.seconds))
    return {ranks: fit_link(found, ranks) for ranks, found in sorted(points.items())}


def link_at(evidence: Evidence, ranks: int) -> LinkFit | None:
    """The link among so many ranks, if it could be fitted."""
    found = links(evidence).get(ranks)
    return found if isinstance(found, LinkFit) else None


def volume(row: ArmRow) -> tuple[float, float]:
    """All-reduces of one step of a rank, and their bytes; a whole number of calls, though DDP's first steps differ."""
    reduced = [one for one in row.collectives if one.kind.startswith("all_reduce")]
    return float(round(sum(one.count for one in reduced))), sum(one.bytes for one in reduced)


def price(row: ArmRow) -> Estimate | None:
    """What communication costs a step: the step less the step without it."""
    for one in row.communication:
        if one.method == BY_REMOVAL:
            steps = row.step_seconds.steps if row.step_seconds else 0
            return Estimate(one.seconds, one.low, one.high, steps, row.runs, one.method)
    return None


def compute_line(evidence: Evidence, experiment: str, **axes: AxisValue) -> ComputeLine | None:
    """Computing time over the batch of a rank, from the arms without communication.

    Where those have but one batch per rank (one GPU, say), one rank with other batches of the same model joins them.
    """
    removed = [row for row in evidence.rows(experiment, intervention=REMOVED, **axes) if scales(row)]
    found = fit_compute(_points(removed))
    if found is not None:
        return found
    alone = [row for row in evidence.rows(experiment, intervention="none", **axes) if scales(row) and row.ranks == 1]
    rows = [*removed, *alone]
    weights = {row.memory.parameter_bytes for row in rows}
    others = [row for row in evidence.rows("batch-scaling") if scales(row) and row.ranks == 1]
    return fit_compute(_points([*rows, *(row for row in others if row.memory.parameter_bytes in weights)]))


def _points(rows: list[ArmRow]) -> list[ComputePoint]:
    return [
        ComputePoint(row.samples_per_step / row.ranks, row.step_seconds)
        for row in rows
        if row.step_seconds is not None and row.samples_per_step
    ]


def weights(row: ArmRow, evidence: Evidence) -> int | None:
    """Parameters of the model that the arm trains."""
    for run in runs_of(row, evidence):
        for record in run.ranks:
            if record.model is not None:
                return record.model.parameters
    return None


def runs_of(row: ArmRow, evidence: Evidence) -> list[Run]:
    """The arm's runs that may be used."""
    found = [evidence.run(name) for name in row.run_names]
    return [run for run in found if run is not None and run.measured]


def not_scaling(rows: tuple[ArmRow, ...], experiment: str) -> str:
    """Why there is no speedup at all to speak of; empty where there is one."""
    if not rows:
        return f"the experiment {experiment} was not run"
    several = [row for row in rows if row.ranks > 1]
    if any(scales(row) and row.scaling.speedup is not None for row in several):
        return ""
    if not any(row.ranks == 1 and scales(row) for row in rows):
        return f"{experiment} has no usable run on one rank"
    if not several:
        return f"{experiment} was run on one rank only, so there is nothing to compare"
    reasons = dict.fromkeys(f"{row.ranks} ranks: {_reason(row)}" for row in several)
    return f"{experiment} has no speedup ({'; '.join(reasons)})"


def few_gpus(evidence: Evidence, experiment: str) -> str:
    """Why a machine with GPUs ran one rank only, and what to do about it; empty where that is not the reason."""
    rows = evidence.rows(experiment)
    gpus = len(evidence.machine.gpus) if evidence.machine else 0
    asked = [count for count in evidence.asked_ranks(experiment) if count > 1]
    runs = [run for row in rows for run in runs_of(row, evidence)]
    if (
        any(row.ranks > 1 for row in rows)
        or not asked
        or min(asked) <= gpus
        or not runs
        or runs[0].spec.device != "cuda"
    ):
        return ""
    have = f"{gpus} GPU{'' if gpus == 1 else 's'}"
    return (
        f"{experiment} asks for {listed([str(count) for count in asked])} ranks beside one; N ranks need N GPUs, and "
        f"this machine has {have}. To measure it: `scalewise run {evidence.loaded.name} --device cpu`, or a machine "
        f"with {min(asked)} or more GPUs"
    )


def _reason(row: ArmRow) -> str:
    if row.mark != "measured":
        return row.mark if not row.reason else f"{row.mark}, {row.reason.rstrip('.')}"
    return row.scaling.refusal or "no speedup"
