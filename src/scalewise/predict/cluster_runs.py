"""Takes runs of `scalewise run` as the table of a cluster: the step and exposed communication on each placement."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.summary import ArmRow, summarise
from scalewise.errors import BadRequest
from scalewise.predict.cluster_table import ONE_CLUSTER, MeasuredPlacement
from scalewise.predict.placement import even_placement
from scalewise.records.load import Run, load

MEASURE_SO = (
    "Measure it on 1, 2 and more ranks, with the batch of each rank the same: scalewise run train.py --ranks 1,2,4"
)


def rows_of_runs(folder: Path) -> tuple[MeasuredPlacement, ...]:
    """One row for each arm that was measured and in which nothing was changed."""
    loaded = load(folder)
    by_name = {run.spec.name: run for run in loaded.runs}
    rows = tuple(_rows([row for one in summarise(loaded).experiments for row in one.rows], by_name))
    if not rows:
        raise BadRequest(f"{folder} holds no measured step whose batch is known.", MEASURE_SO)
    return rows


def _rows(arms: Sequence[ArmRow], runs: dict[str, Run]) -> Iterator[MeasuredPlacement]:
    for arm in arms:
        known = [runs[name] for name in arm.run_names if name in runs]
        if arm.step_seconds is None or not arm.samples_per_step or arm.change != "none" or not known:
            continue
        spec = known[0].spec
        nodes = spec.nodes.count if spec.nodes else 1
        waits = preferred_communication(arm.communication, arm.change)
        axes = " ".join(f"{name}={value}" for name, value in arm.axes.items())
        exposed = min(max(0.0, waits.seconds.value), 0.99 * arm.step_seconds.value) if waits else None
        yield MeasuredPlacement(
            cluster=ONE_CLUSTER,
            model=" ".join(filter(None, (Path(spec.script).stem, axes))),
            placement=even_placement(nodes, arm.ranks),
            local_batch=arm.samples_per_step / arm.ranks,
            step_seconds=arm.step_seconds.value,
            exposed_seconds=0.0 if arm.ranks == 1 else exposed,
        )
