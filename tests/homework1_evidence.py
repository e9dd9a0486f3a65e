"""Runs of homework 1 with known laws inside: overhead, time per sample, a link, and what ranks do to a step."""

from dataclasses import replace
from typing import Any

from evidence_factories import arm
from factories import make_run
from scalewise.records.load import Run
from scalewise.records.rehearsal import TapeRow
from scalewise.records.spec import Rehearsed

WEIGHTS = 2_000_000
BUCKETS = 2
SIZES = [4 * 8**power for power in range(9)]


def strong(
    experiment: str = "strong-scaling",
    *,
    overhead: float = 1e-3,
    sample: float = 1e-4,
    exchange: float = 0.0,
    ranks: tuple[int, ...] = (1, 2, 4),
    batch: int = 64,
    weights: int = WEIGHTS,
    removed: bool = True,
    **changes: Any,
) -> list[Run]:
    """A step of overhead + sample x batch / ranks, and on several ranks `exchange` on top unless it is removed."""
    runs = []
    for count in ranks:
        compute = overhead + sample * batch / count
        step = {"collectives": {"all_reduce": (BUCKETS, 4 * weights)}} if count > 1 else {}
        model = {"parameters": weights, "parameter_bytes": 4 * weights}
        more = {"samples_in_all": batch, "model": model, "scaling": "strong", **changes}
        plain = compute + (exchange if count > 1 else 0.0)
        runs.append(arm(experiment, _steps(plain), count, step=step, **more))
        if removed:
            runs.append(arm(experiment, _steps(compute), count, removed=True, **more))
    return runs


def _steps(seconds: float) -> list[float]:
    """Forty steps with a little order in them, so that an interval has a width."""
    return [seconds * (1 + 0.002 * (step % 5 - 2)) for step in range(40)]


def link(alpha: float = 1e-4, rate: float = 1e9, ranks: int = 2, **changes: Any) -> Run:
    """One all-reduce per step, three rounds over the sizes."""
    sizes = [size for size in SIZES for _ in range(4)]
    run = make_run(
        [alpha + size / rate for size in sizes], ranks, name=f"link-ranks{ranks}", experiment="link", **changes
    )
    records = tuple(
        replace(
            record,
            steps=tuple(
                replace(row, collectives={"all_reduce": (1, size)}, collective_ns=round((alpha + size / rate) * 1e9))
                for row, size in zip(record.steps, sizes, strict=True)
            ),
        )
        for record in run.ranks
    )
    return replace(run, ranks=records)


def link_in_training(**changes: Any) -> Run:
    """The same, as it is measured for predictions."""
    run = link(**changes)
    return replace(run, spec=replace(run.spec, name=f"{run.spec.name}-hot", experiment="link-in-training"))


def rehearsal(
    ranks: int,
    compute: float,
    *,
    experiment: str = "strong-scaling",
    company: int = 2,
    size_bytes: int = 4 * WEIGHTS,
    steps: int = 20,
    **changes: Any,
) -> Run:
    """As so many ranks: computing, and then one all-reduce that is waited for."""
    case = "".join(f"-{key}{value}" for key, value in changes.get("axes", {}).items())
    name = f"{experiment}{case}-rehearse{ranks}"
    spec = {"name": name, "experiment": experiment, "kind": Rehearsed(ranks, 0, ranks), **changes}
    run = make_run(_steps(compute)[:steps], company, samples_in_all=64 * company // ranks, **spec)
    end_ns = round(compute * 1e9)
    marks = (("forward", -1, 0), ("backward", -1, end_ns // 2), ("issue", 0, end_ns), ("wait", 0, end_ns))
    tapes = tuple(TapeRow(step, marks, (("all_reduce", size_bytes, ranks),)) for step in range(steps))
    return replace(run, ranks=tuple(replace(record, rehearsal=tapes) for record in run.ranks))
