"""The doctor's prices beside what fixing the script really changes: time per step, gradient, messages, files."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corpus_scripts import Clinic, Examined, Script, machine_here

from bench.runs import Silent
from scalewise.doctor.case import Case
from scalewise.doctor.finding import Finding, TimeSaved
from scalewise.doctor.replay import replay_findings, time_saved
from scalewise.errors import BadRequest
from scalewise.launch.campaign import run_campaign
from scalewise.records.folder import SuiteFolder
from scalewise.records.inspection import GradientRow
from scalewise.records.load import Run, load
from scalewise.records.notes import SaveNote, ScheduleNote
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Inspected, RunSpec, Timed, Turns

REPEATS = 5
STEPS = 60
TIME = "ms per step"
# Waiting for data or for a slow rank may lie between steps; loaders would work on while their run waits for its turn.
WHOLE_LOOP = ("input-bound", "straggler")


class Tolerant(Silent):
    """A script that fails when it is fixed is told of in the table, not by an end of the benchmark."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Nothing to say."""


@dataclass(frozen=True)
class Checked:
    """One price, and the same thing measured on the fixed script."""

    script: str
    check: str
    unit: str
    price: float
    price_low: float | None
    price_high: float | None
    measured: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Price over what was measured."""
        return self.price / self.measured if self.measured else math.nan

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the ratio, from what was measured; None where that cannot be told from nothing."""
        if self.low <= 0:
            return None
        return self.price / self.high, self.price / self.low

    @property
    def agrees(self) -> bool:
        """Whether the two intervals meet."""
        low = self.price if self.price_low is None else self.price_low
        high = self.price if self.price_high is None else self.price_high
        return low <= self.high and self.low <= high


def price_table(opened: Clinic, sick: Sequence[Examined], cured: Sequence[Examined]) -> list[dict[str, object]]:
    """Prints the prices that can be measured otherwise, each beside its measurement."""
    print(f"\n{'price against the fixed script':<44}{'price':>10}{'measured':>12}{'ratio':>8}  95 %")
    rows = []
    for before, after in zip(sick, cured, strict=True):
        settled = _settled(opened, before)
        for finding in settled:
            if finding.price is not None and finding.check in before.script.expect:
                checked = _checked(opened, finding, before, after)
                rows += [] if checked is None else [checked]
    for row in rows:
        _print(row)
    agreeing = sum(row.agrees for row in rows)
    vague = sum(row.interval is None for row in rows)
    print(f"{agreeing} of {len(rows)} prices agree with what fixing the script changed, within their intervals;")
    print(f"{vague} measurements cannot be told from nothing on this machine")
    return [{**vars(row), "ratio": row.ratio, "agrees": row.agrees} for row in rows]


def _print(row: Checked) -> None:
    interval = row.interval
    told = "not told from nothing" if interval is None else f"[{interval[0]:.2f}, {interval[1]:.2f}]"
    unit = {"ms per step": "ms", "times": "x", "bytes": "B"}[row.unit]
    amounts = f"{row.price:>8.3g} {unit:<2}{row.measured:>9.3g} {unit:<2}{row.ratio:>8.2f}"
    print(f"  {row.script:<42}{amounts}  {told}")


def _settled(opened: Clinic, examined: Examined) -> tuple[Finding, ...]:
    """The findings after the doctor's own replays."""
    if not any(finding.change for finding in examined.diagnosis.findings):
        return examined.diagnosis.findings
    make = _maker(opened, f"replays-{examined.script.name}")
    return replay_findings(examined.case, examined.diagnosis, make).findings


def _maker(opened: Clinic, name: str) -> Callable[[Sequence[RunSpec]], tuple[Run, ...]]:
    folder = SuiteFolder(opened.folder / name)

    def make(specs: Sequence[RunSpec]) -> tuple[Run, ...]:
        run_campaign(specs, folder, machine_here(), Tolerant(), opened.servers)
        return tuple(run for spec in specs for run in load(Path(folder.run(spec.name).path)).runs)

    return make


def _checked(opened: Clinic, finding: Finding, before: Examined, after: Examined) -> Checked | None:
    price = finding.price
    assert price is not None
    script = before.script
    if price.unit == TIME:
        found = _spared(opened, script, whole_loop=finding.check in WHOLE_LOOP)
        if found is None:
            return None
        measured = (found.milliseconds.value, found.milliseconds.low, found.milliseconds.high)
    else:
        figure = FIGURES.get((finding.check, price.unit))
        value = figure(opened, before, after) if figure else None
        if value is None:
            return None
        measured = (value, value, value)
    within = (price.interval.low, price.interval.high) if price.interval else (None, None)
    return Checked(script.name, finding.check, price.unit, price.value, *within, *measured)


def _spared(opened: Clinic, script: Script, whole_loop: bool) -> TimeSaved | None:
    """How much shorter the fixed script's step is, both watched as ever; in turns where only steps count."""
    sides: tuple[list[RunSpec], list[RunSpec]] = ([], [])
    for repeat in range(REPEATS):
        for index, side in enumerate(sides):
            spec = opened.spec(script, bool(index), kind=Timed(), enough_steps=STEPS, repeat=repeat)
            ring = Turns(f"{script.name}-r{repeat}", index, 2)
            side.append(replace(spec, name=f"{spec.name}-{index}-r{repeat}", turns=None if whole_loop else ring))
    make = _maker(opened, f"prices-{script.name}")
    try:
        runs = make([spec for pair in zip(*sides, strict=True) for spec in pair])
    except BadRequest:
        return None
    found = {run.spec.name: run for run in runs}
    plain, fixed = ([found[spec.name] for spec in side] for side in sides)
    alike = [replace(run, spec=replace(run.spec, script=plain[0].spec.script)) for run in fixed]
    return time_saved(plain, alike, whole_loop)


def _gradient(opened: Clinic, before: Examined, after: Examined) -> float | None:
    """How many times as long the first step's gradient is."""
    norms = []
    for fixed in (False, True):
        case = opened.examine(before.script, fixed=fixed, kind=Inspected()).case
        rank = min(case.run.ranks, key=lambda one: one.rank, default=None)
        rows = [row for row in (rank.inspection if rank else ()) if isinstance(row, GradientRow)]
        norms.append(rows[0].norm if rows else 0.0)
    return norms[0] / norms[1] if norms[1] else None


def _reductions(opened: Clinic, before: Examined, after: Examined) -> float | None:
    """How many times as many all-reduces a step makes."""
    counts = [_per_step(one.case) for one in (before, after)]
    return counts[0] / counts[1] if counts[1] else None


def _per_step(case: Case) -> float:
    steps = case.first.record.steps[2:]  # DDP makes its buckets anew after the first
    calls = [sum(calls for name, (calls, _) in row.collectives.items() if "reduce" in name) for row in steps]
    return sum(calls) / len(calls) if calls else 0.0


def _bytes_per_step(opened: Clinic, before: Examined, after: Examined) -> float | None:
    """How many bytes fewer a rank's collectives carry in a step."""
    sides = []
    for one in (before, after):
        steps = one.case.first.record.steps[2:]
        sizes = [sum(size for _, size in row.collectives.values()) for row in steps]
        sides.append(sum(sizes) / len(sizes) if sizes else 0.0)
    return sides[0] - sides[1]


def _schedule(opened: Clinic, before: Examined, after: Examined) -> float | None:
    """How many times as often the scheduler steps."""
    rates = [len(one.case.first.all(ScheduleNote)) / max(1, len(one.case.first.windows)) for one in (before, after)]
    return rates[0] / rates[1] if rates[1] else None


def _saved(opened: Clinic, before: Examined, after: Examined) -> float | None:
    """How many bytes more are written over all ranks."""
    sizes = [sum(note.size_bytes for rank in one.case.ranks for note in rank.all(SaveNote)) for one in (before, after)]
    return float(sizes[0] - sizes[1])


FIGURES: dict[tuple[str, str], Callable[[Clinic, Examined, Examined], float | None]] = {
    ("loss-not-divided", "times"): _gradient,
    ("world-size-factor", "times"): _gradient,
    ("scaler-bypassed", "times"): _gradient,
    ("tiny-buckets", "times"): _reductions,
    ("scheduler-per-micro-batch", "times"): _schedule,
    ("checkpoint-by-all-ranks", "bytes"): _saved,
    ("sync-every-micro-batch", "bytes"): _bytes_per_step,
    ("no-sync-around-backward-only", "bytes"): _bytes_per_step,
    ("needless-buffer-broadcast", "bytes"): _bytes_per_step,
}
