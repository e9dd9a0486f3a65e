"""Reads the runs of a comparison of strategies: a row for one rank and for each strategy."""

from collections.abc import Mapping
from dataclasses import replace

from scalewise.agreement.strategy_table import StrategyParity, StrategyRow, ring_bytes, speedup_over
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.inspected_run import inspection_of
from scalewise.analysis.memory_use import MemoryParts, memory_parts
from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.summary import ArmRow, summarise
from scalewise.jobs.strategy_runs import ONE_RANK, StrategyArm, StrategyRuns
from scalewise.records.examination import MeasuredRow
from scalewise.records.load import Run, load


def strategy_rows(
    runs: StrategyRuns, ended: Mapping[str, tuple[str, str]], parities: Mapping[str, StrategyParity]
) -> list[StrategyRow]:
    """A row for one rank and for each strategy; those that ended without numbers have the reason."""
    loaded = load(runs.folder.path)
    by_run = {name: row for one in summarise(loaded).experiments for row in one.rows for name in row.run_names}
    named = {run.spec.name: run for run in loaded.runs}
    base = _row(runs, ONE_RANK, by_run, named, None)
    rows = [base]
    for arm in runs.arms if runs.request.ranks > 1 else ():
        if arm.name in ended:
            kind, reason = ended[arm.name]
            rows.append(StrategyRow(arm.name, arm.text, kind, reason, runs.request.ranks))  # type: ignore[arg-type]
        else:
            rows.append(replace(_row(runs, arm, by_run, named, base), parity=parities.get(arm.name)))
    return rows


def _row(
    runs: StrategyRuns, arm: StrategyArm, by_run: dict[str, ArmRow], named: dict[str, Run], base: StrategyRow | None
) -> StrategyRow:
    spec = runs.timed(arm, 0)
    row = by_run.get(spec.name)
    if row is None or row.step_seconds is None:
        return StrategyRow(arm.name, arm.text, "failed", "no step of it had settled", spec.ranks)
    memory = _most_memory(named.get(runs.inspected(arm).name))
    exposed, method = _exposed(row) if arm.changes else (None, "")
    alone = by_run[runs.timed(ONE_RANK, 0).name]
    return StrategyRow(
        name=arm.name,
        change=arm.text,
        kind="measured",
        ranks=spec.ranks,
        step=row.step_seconds,
        samples_per_second=_rate(alone.samples_per_step, row.loop_seconds or row.step_seconds),
        speedup=speedup_over(base, row.step_seconds) if base is not None else None,
        memory=memory.parts if memory else _known_memory(row),
        peak_bytes=memory.peak_bytes if memory else row.memory.cuda_peak_allocated_bytes,
        sent_bytes=_bytes_sent(row, spec.ranks) if arm.changes else None,
        exposed=exposed,
        exposed_method=method,
        bubble=_bubble(named.get(spec.name)),
        doubts=tuple(f"{one.name}: {one.evidence}" for one in row.caveats if one.name == "loaded machine"),
    )


def _rate(samples: float | None, seconds: Estimate) -> Estimate | None:
    """Samples in a second: every strategy has the batch that one rank has."""
    return seconds.through(lambda value: samples / value, positive=True) if samples else None


def _bytes_sent(row: ArmRow, ranks: int) -> float:
    return sum(ring_bytes(one.kind, one.bytes, ranks) for one in row.collectives)


def _exposed(row: ArmRow) -> tuple[Estimate | None, str]:
    found = preferred_communication(row.communication, row.change)
    return (found.seconds, found.name) if found is not None else (None, "")


def _most_memory(run: Run | None) -> MemoryParts | None:
    """The memory of the rank that holds most."""
    found = [memory_parts(inspection_of(replace(run, ranks=(rank,)))) for rank in run.ranks] if run else []
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.peak_bytes or sum(one.parts.values()), default=None)


def _known_memory(row: ArmRow) -> dict[str, int] | None:
    """The bytes in a rank's parts of sharded tensors, which an inspection does not look into; no activations."""
    found = {
        "weights": row.memory.parameter_bytes,
        "gradients": row.memory.gradient_bytes,
        "optimizer state": row.memory.optimizer_bytes,
    }
    return {name: size for name, size in found.items() if size is not None} or None


def _bubble(run: Run | None) -> float | None:
    """The share of a pipeline's step in which ranks wait, as the change measured it on each of them."""
    rows = [row for rank in run.ranks for row in rank.examination if isinstance(row, MeasuredRow)] if run else []
    shares = [row.value for row in rows if row.what == "bubble"]
    return sum(shares) / len(shares) if shares else None
