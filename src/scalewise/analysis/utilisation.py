"""Computes how well an arm uses its devices: work and profiled time of an inspected run, over timed steps.

Every share is refused with a reason if it is not known, or if it would be above 100 %.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from scalewise.analysis.arms import ArmRuns
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.inspected_run import failure_of
from scalewise.launch.peak_rates import same_seat, seat_of
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.load import RankRecord, Run
from scalewise.records.machine import PeakRates
from scalewise.records.spec import ARM
from scalewise.units import NANO, bytes_text

MOST_UNCOUNTED = 0.05  # of the busy time, in operators that may do work that no formula knows
MOST_DIFFERENCE = 0.05  # between the flops of two inspected steps that are taken as equal


@dataclass(frozen=True)
class Share:
    """A share of what is possible, between 0 and 1, or the reason why it is not given."""

    value: float | None = None
    interval: Estimate | None = None  # around the value, from the interval of the timed step
    reason: str = ""
    method: str = ""


@dataclass(frozen=True)
class FamilyTime:
    """Time of one kind of kernels or operators in the profiled step, mean over ranks."""

    family: str
    seconds: float
    share: float  # of the profiled step


@dataclass(frozen=True)
class Utilisation:
    """The use of its devices by one arm; figures are of one rank, the mean over ranks."""

    arm: str
    run: str  # the inspected run
    device: str
    flops_per_step: float | None = None  # needed by the model, without recomputation
    recomputed_flops: float = 0.0
    flops_by_precision: dict[str, float] | None = None
    flops_by: str = ""  # how they were counted
    achieved_flops_per_second: float | None = None
    peak_flops_per_second: float | None = None  # measured, in the mix of precisions of the step
    mfu: Share = Share()
    busy: Share = Share()
    bandwidth: Share = Share()  # a lower bound
    operand_bytes: float | None = None
    launches: int | None = None  # of kernels, or of operators on a CPU rank
    families: tuple[FamilyTime, ...] = ()
    families_of: str = ""  # "kernels" or "operators"; empty: no profile
    other: dict[str, float] | None = None  # seconds of the largest names in the family `other`
    no_profile: str = ""  # why there are no families


def utilisations_of(
    arms: Sequence[ArmRuns], runs: Iterable[Run], steps: Sequence[Estimate | None]
) -> tuple[Utilisation, ...]:
    """The utilisation of every arm that has an inspected run; `steps` are the arms' step times."""
    inspected = {run.spec.key(ARM): run for run in runs if run.spec.inspected}
    return tuple(
        _utilisation(arm, inspected[arm.spec.key(ARM)], step)
        for arm, step in zip(arms, steps, strict=True)
        if arm.spec.key(ARM) in inspected
    )


def _utilisation(arm: ArmRuns, run: Run, step: Estimate | None) -> Utilisation:
    failure = failure_of(run)
    if failure or not run.ranks:
        reason = f"the inspected run shows nothing: {failure or 'no rank'}"
        nothing = Share(reason=reason)
        return Utilisation(
            arm.label, run.spec.name, run.spec.device, mfu=nothing, busy=nothing, bandwidth=nothing, no_profile=reason
        )
    work = [_work(rank) for rank in run.ranks]
    profiles = [row for rank in run.ranks for row in rank.utilisation if isinstance(row, ProfileRow)]
    told = [row for row in profiles if not row.missing]
    peak = _peak(run)
    known = all(isinstance(one, WorkRow) for one in work)
    rows = [one for one in work if isinstance(one, WorkRow)] if known else []
    needed = mean(sum(row.flops.values()) - sum(row.recomputed.values()) for row in rows) if rows else None
    at_peak = _seconds_at_peak(rows, peak)
    other_step = _not_comparable(arm, run, step)
    return Utilisation(
        arm=arm.label,
        run=run.spec.name,
        device=run.spec.device,
        flops_per_step=needed,
        recomputed_flops=mean(sum(row.recomputed.values()) for row in rows) if rows else 0.0,
        flops_by_precision=_by_precision(rows) if rows else None,
        flops_by=rows[0].method if rows else "",
        achieved_flops_per_second=needed / step.value if needed and step and not other_step else None,
        peak_flops_per_second=needed / at_peak if needed and isinstance(at_peak, float) else None,
        mfu=_mfu(run, step, work, told, at_peak, other_step),
        busy=_busy(run, None if other_step else step, told),
        bandwidth=_bandwidth(step, rows, peak, other_step),
        operand_bytes=mean(row.operand_bytes for row in rows if row.operand_bytes is not None)
        if any(row.operand_bytes is not None for row in rows)
        else None,
        launches=round(mean(row.launches for row in told)) if told else None,
        families=_families(told),
        families_of=("kernels" if told[0].device == "cuda" else "operators") if told else "",
        other=_mean_seconds([row.other for row in told]) if told else None,
        no_profile="" if told else next((row.missing for row in profiles), "no step was profiled"),
    )


def _work(rank: RankRecord) -> WorkRow | str:
    """The work counted by dispatch or else by the profile, or the reason why neither was counted."""
    rows = [row for row in rank.utilisation if isinstance(row, WorkRow)]
    rows.sort(key=lambda row: row.method != "dispatch")
    good = [row for row in rows if not row.missing]
    if not good:
        reasons = dict.fromkeys(row.missing for row in rows)
        return "; ".join(reasons) or "the script ended before the step that is counted"
    if not sum(good[0].flops.values()):
        return "no operator was seen whose floating-point operations are known"
    return good[0]


def _peak(run: Run) -> PeakRates | str:
    if run.machine is None:
        return "the machine was not recorded"
    if len({gpu.name for gpu in run.machine.gpus}) > 1 and run.spec.device == "cuda":
        return "the GPUs here are of several kinds"
    seat = seat_of(run.machine, run.spec)
    found = next((one for one in run.machine.peaks if same_seat(one, seat)), None)
    return found or "the peak of its device was not measured"


def _seconds_at_peak(rows: Sequence[WorkRow], peak: PeakRates | str) -> float | str:
    """The shortest time in which the device could do the work of a step, each precision at its own peak."""
    if isinstance(peak, str):
        return peak
    needed = [{name: flops - row.recomputed.get(name, 0) for name, flops in row.flops.items() if flops} for row in rows]
    without = sorted({name for row in needed for name in row if not peak.flops_per_second.get(name)})
    if without:
        return f"no peak was measured in {', '.join(without)}"
    if not needed:
        return "no work was counted"
    return mean(sum(flops / peak.flops_per_second[name] for name, flops in row.items()) for row in needed)


def _mfu(
    run: Run,
    step: Estimate | None,
    work: Sequence[WorkRow | str],
    profiles: Sequence[ProfileRow],
    at_peak: float | str,
    other_step: str,
) -> Share:
    reasons = [one for one in work if isinstance(one, str)]
    reason = other_step or next(iter(reasons), "") or _differs(run) or _uncounted(profiles)
    if not reason and isinstance(at_peak, str):
        reason = at_peak
    if reason or step is None or isinstance(at_peak, str):
        return Share(reason=reason)
    return _share(at_peak, step, "counted work over the timed step and the measured peak")


def _share(seconds: float, step: Estimate, method: str) -> Share:
    value = seconds / step.value
    if value > 1:
        return Share(reason=f"it comes to {100 * value:.0f} %, so the peak was measured too low or the work is wrong")
    return Share(value, step.through(lambda whole: min(1.0, seconds / whole)), method=method)


def _not_comparable(arm: ArmRuns, run: Run, step: Estimate | None) -> str:
    """The reason why the inspected step cannot be compared with the timed one; empty if it can."""
    if step is None or not arm.measured:
        return "there is no timed run"
    if arm.spec.emulated or arm.spec.oversubscribed:
        return "ranks share a device, and the peak is that of one alone"
    series = arm.measured[0].series
    if series.optimizer_steps > 1:
        return f"an iteration has {series.optimizer_steps} optimizer steps, and one was looked at"
    counted = {row.step for rank in run.ranks for row in rank.utilisation if isinstance(row, WorkRow)}
    feeding = [rank for rank in run.ranks if rank.rank in series.relation.feeding] or run.ranks
    samples = [row.samples for rank in feeding for row in rank.steps if row.step == min(counted, default=-1)]
    seen, timed = sum(one or 0 for one in samples), series.global_samples() if series.relation.samples is None else None
    if timed is not None and None not in samples and samples and seen != timed:
        return f"the inspected step had {seen} samples and the timed ones {timed:.0f}"
    threads = {row.threads for rank in run.ranks for row in rank.utilisation if isinstance(row, CpuTimeRow)}
    asked = arm.spec.threads_per_rank
    if asked and threads and threads != {asked}:
        return f"the script set {min(threads)} threads, and the peak was measured with {asked}"
    return ""


def _differs(run: Run) -> str:
    """The reason why no step is typical, if dispatch and profile counted different work in two steps; else empty.

    An activation checkpoint ends its recomputation early, and the profile also counts the call at which it stops.
    """
    for rank in run.ranks:
        good = [row for row in rank.utilisation if isinstance(row, WorkRow) and not row.missing]
        totals = [sum(row.flops.values()) for row in good]
        again = max((sum(row.recomputed.values()) for row in good), default=0)
        if len(totals) > 1 and max(totals) > (1 + MOST_DIFFERENCE) * min(totals) + again:
            numbers = " and ".join(f"{total:.4g}" for total in totals)
            return f"two inspected steps did different work ({numbers} floating-point operations)"
    return ""


def _uncounted(profiles: Sequence[ProfileRow]) -> str:
    if not profiles:
        return "no step was profiled, so work that is not counted could not be noticed"
    busy = sum(length for row in profiles for name, length in row.families.items() if name != HOST)
    names = _summed([row.uncounted for row in profiles])
    if not busy or sum(names.values()) <= MOST_UNCOUNTED * busy:
        return ""
    largest = max(names, key=lambda name: names[name])
    share = 100 * sum(names.values()) / busy
    return f"{share:.0f} % of the busy time is in {largest[:60]} and the like, whose operations are not known"


def _busy(run: Run, step: Estimate | None, profiles: Sequence[ProfileRow]) -> Share:
    """The busy share: on a GPU while a kernel runs, on a CPU rank by the CPU time that its process took."""
    if run.spec.device == "cpu":
        rows = [row for rank in run.ranks for row in rank.utilisation if isinstance(row, CpuTimeRow)]
        if not rows or not all(row.wall_ns and row.threads for row in rows):
            return Share(reason="the script ended before the steps whose CPU time is read")
        value = mean(row.cpu_ns / (row.wall_ns * row.threads) for row in rows)
        if value > 1:
            return Share(reason=f"it comes to {100 * value:.0f} %: the process has more threads than torch's")
        return Share(value, method=f"CPU time over wall time and threads, {min(row.steps for row in rows)} steps")
    if not profiles:
        return Share(reason="no step was profiled")
    busy = mean(row.busy_ns for row in profiles) * NANO
    if step is not None and busy <= step.value:
        return _share(busy, step, "kernels of the profiled step over the timed step")
    own = mean(row.busy_ns / row.wall_ns for row in profiles)
    return Share(min(1.0, own), method="kernels of the profiled step over the same step")


def _bandwidth(step: Estimate | None, rows: Sequence[WorkRow], peak: PeakRates | str, other_step: str) -> Share:
    reason = other_step
    if not reason and isinstance(peak, str):
        reason = peak
    moved = [row.streamed_bytes for row in rows if row.streamed_bytes is not None]
    if not reason and not moved:
        reason = "the bytes were not seen, or the size of the cache is not known"
    if not reason and not any(moved):
        cache = next((row.cache_bytes for row in rows if row.cache_bytes), 0)
        reason = f"no tensor is larger than the cache ({bytes_text(cache)}), so what comes from memory cannot be told"
    if reason or step is None or isinstance(peak, str):
        return Share(reason=reason)
    method = "tensors larger than the cache over the timed step and the measured copy rate; a lower bound"
    return _share(mean(moved) / peak.copy_bytes_per_second, step, method)


def _families(profiles: Sequence[ProfileRow]) -> tuple[FamilyTime, ...]:
    """The time by family, the largest first."""
    if not profiles:
        return ()
    seconds = _mean_seconds([row.families for row in profiles])
    wall = mean(row.wall_ns for row in profiles) * NANO
    found = [FamilyTime(name, time, time / wall) for name, time in seconds.items()]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _by_precision(rows: Sequence[WorkRow]) -> dict[str, float]:
    return {name: total / len(rows) for name, total in _summed([row.flops for row in rows]).items()}


def _mean_seconds(rows: Sequence[dict[str, int]]) -> dict[str, float]:
    return {name: total * NANO / len(rows) for name, total in _summed(rows).items()}


def _summed(rows: Sequence[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            found[name] = found.get(name, 0) + value
    return found
