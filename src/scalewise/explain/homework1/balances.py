"""The small and the large model of H1.3: bytes, flops and time of a rank's step, and where the two sides are equal."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.propagate import propagate
from scalewise.analysis.step_model import ComputeLine, batch_at_balance, rate_at_balance
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import REMOVED, compute_line, link_at, price, scales, volume, weights

EXPERIMENT = "model-size"
FLOP_PER_WEIGHT_AND_SAMPLE = 6  # a product and a sum in forward, and twice that in backward


@dataclass(frozen=True)
class Case:
    """One model of the experiment over its ranks."""

    name: str
    used: str  # 2048 x 8
    asked: str  # 8192 x 8; empty: used as asked
    rule: str  # by which it was made smaller
    rows: tuple[ArmRow, ...]


@dataclass(frozen=True)
class Balance:
    """One case at the most ranks that scale: bytes and flops of a rank's step, and the time of both."""

    case: Case
    row: ArmRow
    samples_per_rank: float
    weights: int
    all_reduces: float
    bytes: float
    communication: Estimate | None
    computing: Estimate | None  # the step without communication
    line: ComputeLine | None
    batch: Estimate | None  # per rank, at which the two take equally long
    link_rate: Estimate | None  # bytes per second, at which they do with the batch as it is

    @property
    def flops(self) -> float:
        """Of one rank's step."""
        return FLOP_PER_WEIGHT_AND_SAMPLE * self.samples_per_rank * self.weights

    @property
    def ratio(self) -> Estimate | None:
        """Communication over computing."""
        if self.communication is None or self.computing is None:
            return None
        return propagate(lambda a, b: a / b, self.communication, self.computing)


def cases(evidence: Evidence) -> tuple[Case, ...]:
    """In the order of the suite."""
    rows = evidence.rows(EXPERIMENT)
    names = dict.fromkeys(str(row.axes.get("case")) for row in rows)
    return tuple(_case(evidence, name, evidence.rows(EXPERIMENT, case=name)) for name in sorted(names, reverse=True))


def _case(evidence: Evidence, name: str, rows: tuple[ArmRow, ...]) -> Case:
    run = next((run for row in rows for one in row.run_names if (run := evidence.run(one))), None)
    if run is None:
        return Case(name, "", "", "", rows)
    env, asked = run.spec.env, run.spec.asked
    used = " x ".join(env[key] for key in ("DIM", "DEPTH") if key in env)
    wanted = " x ".join({**env, **asked}[key] for key in ("DIM", "DEPTH") if key in env) if asked else ""
    return Case(name, used, wanted, run.spec.shrink_rule, rows)


def balance(evidence: Evidence, case: Case) -> Balance | None:
    """At the most ranks of the case that are real scaling; None where there are none."""
    row = next((row for row in reversed(case.rows) if row.ranks > 1 and scales(row)), None)
    count = weights(row, evidence) if row else None
    if row is None or not count or not row.samples_per_step:
        return None
    own = row.samples_per_step / row.ranks
    line = compute_line(evidence, EXPERIMENT, case=case.name)
    link, exchanged, cost = link_at(evidence, row.ranks), volume(row), price(row)
    removed = evidence.row(EXPERIMENT, ranks=row.ranks, intervention=REMOVED, case=case.name)
    return Balance(
        case=case,
        row=row,
        samples_per_rank=own,
        weights=count,
        all_reduces=exchanged[0],
        bytes=exchanged[1],
        communication=cost,
        computing=removed.step_seconds if removed else None,
        line=line,
        batch=batch_at_balance(line, cost) if line and cost else None,
        link_rate=rate_at_balance(line, own, link, exchanged) if line and link else None,
    )


def balances(evidence: Evidence) -> tuple[Balance, ...]:
    """Of every case that has one."""
    found = (balance(evidence, case) for case in cases(evidence))
    return tuple(one for one in found if one is not None)


def counted(evidence: Evidence) -> tuple[tuple[Case, float, float], ...]:
    """(case, bytes per flop, samples per rank) of every case with several ranks; counts are exact on any hardware."""
    found = []
    for case in cases(evidence):
        several = [row for row in case.rows if row.ranks > 1 and volume(row)[1] > 0]
        row = max(several, key=lambda row: (scales(row), row.ranks), default=None)  # the one of the table, if there
        count = weights(row, evidence) if row else None
        if row is not None and count and row.samples_per_step:
            own = row.samples_per_step / row.ranks
            found.append((case, volume(row)[1] / (FLOP_PER_WEIGHT_AND_SAMPLE * own * count), own))
    return tuple(found)
