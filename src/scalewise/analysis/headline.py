"""Says in one sentence per arm what a person wants to know first: is it faster, what limits it, what to try."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from scalewise.analysis.estimate import level_text
from scalewise.analysis.scaling import BY_REMOVAL, preferred_communication
from scalewise.analysis.summary import ArmRow
from scalewise.records.collectives import kinds_carrying
from scalewise.units import seconds_text, with_capital

Cause = Literal[
    "communication", "data", "host", "launch", "batch too small", "shared machine", "optimizer", "straggler", "memory",
    "not told apart",
]  # fmt: skip
MOST_HEADLINES = 8  # to show: more would scroll the tables off the screen
SMALLEST_SHARE = 0.05  # of the loop: a smaller loss is not worth a change of the script
# Kinds that shard or exchange in forward as well (FSDP, tensor and pipeline parallelism), without waiting for them.
IN_FORWARD_TOO = kinds_carrying("shards", "activations")
SAME_RANK_SHARE = 0.8  # of the steps: a rank that is the slowest so often is slow by itself, not by chance
IDLE_GPU_SHARE = 0.3  # of the time without a kernel: above it the GPU waits for the host
FULL_MEMORY_SHARE = 0.92  # of a GPU: if the allocator has reserved so much, there is no room for a larger batch

ADVICE: dict[Cause, str] = {
    "communication": "a larger batch per rank, or accumulation with no_sync(); `scalewise rehearse` prices both",
    "data": "more DataLoader workers, or cheaper samples; `scalewise doctor` says which part of loading is slow",
    "host": "look at logging, metrics and checkpoints in the loop; `scalewise doctor` names the lines that wait",
    "launch": "a fused optimizer, torch.compile or a larger batch",
    "batch too small": "a larger batch, or fewer ranks",
    "shared machine": "fewer threads per rank, or ranks on cores and memory of their own",
    "optimizer": "a fused or foreach optimizer, or ZeroRedundancyOptimizer or FSDP2, which share its work",
    "straggler": "give that rank less work, or look at what else runs on its cores",
    "memory": "activation checkpointing, a smaller precision or FSDP2 before a larger batch",
    "not told apart": "an arm with --change remove_communication where it can be applied, or `scalewise rehearse`",
}


@dataclass(frozen=True)
class HeldBack:
    """The largest part of the loop that an ideal run would not have. Seconds are medians, without an interval."""

    cause: Cause
    seconds: float  # of every step
    share: float  # of the loop
    evidence: str
    advice: str


@dataclass(frozen=True)
class Headline:
    """The answer for one arm."""

    arm: str
    verdict: str
    held_back: HeldBack | None  # None: nothing large enough to name
    doubts: tuple[str, ...]  # names of the caveats that cast doubt on the number
    imprecise: tuple[str, ...] = ()  # names of those that more steps would cure

    def text(self) -> str:
        """The whole answer as one paragraph."""
        parts = [self.verdict]
        if self.held_back is not None:
            one = self.held_back
            parts.append(
                f"Held back by {one.cause}: {one.evidence}." if one.cause != "not told apart" else one.evidence
            )
            parts.append(f"Try: {one.advice}.")
        if self.doubts:
            parts.append(f"In doubt: {', '.join(self.doubts)}; see below.")
        if self.imprecise:
            parts.append(f"Imprecise: {', '.join(self.imprecise)}; see below.")
        return " ".join(parts)


def headlines_of(rows: Sequence[ArmRow]) -> tuple[Headline, ...]:
    """One headline for each arm without changes; arms with a change explain, and give no answer."""
    by_label = {row.label: row for row in rows}
    plain = [row for row in rows if row.change == "none"]
    return tuple(
        Headline(
            arm=row.label,
            verdict=_verdict(row, base := by_label.get(row.scaling.base)),
            held_back=_held_back(row, base) if row.step_seconds is not None else None,
            doubts=_named(row, imprecise=False),
            imprecise=_named(row, imprecise=True),
        )
        for row in plain
    )


def _named(row: ArmRow, imprecise: bool) -> tuple[str, ...]:
    doubts = (one for one in row.caveats if one.severity == "doubt" and one.imprecise == imprecise and row.runs)
    return tuple(dict.fromkeys(one.name for one in doubts))


def _verdict(row: ArmRow, base: ArmRow | None) -> str:
    if row.step_seconds is None:
        return f"{with_capital(row.label)}: no measurement, {row.reason or 'the run is not finished'}."
    speedup, refusal = row.scaling.speedup, row.scaling.refusal
    rate = f", {row.samples_per_second.value:,.0f} samples/s" if row.samples_per_second else ""
    takes = f"{with_capital(row.label)}: {seconds_text(row.step_seconds.value)} a step{rate}"
    if base is row or base is None or (speedup is None and not refusal):
        return f"{takes}."
    if speedup is None:
        return f"{takes}; no speedup is given: {refusal}."
    interval = f"{level_text(speedup.level)} interval {speedup.low:.2f} to {speedup.high:.2f}"
    ideal = row.ranks / base.ranks
    of_ideal = f"{speedup.value / ideal * 100:.0f} % of the ideal {ideal:g}" if ideal > 1 else ""
    figures = "; ".join(filter(None, (interval, of_ideal)))
    what = "samples per second" if row.scaling.kind == "weak" else "speed"
    weak = " Weak scaling: each rank keeps its own batch." if row.scaling.kind == "weak" else ""
    if speedup.low <= 1 <= speedup.high:
        times = f"{speedup.value:.2f} times the {what}"
        return f"It cannot be told whether {row.label} beat {base.label}: {times} ({figures}).{weak}"
    word = "faster" if speedup.value > 1 else "slower"
    are = "are" if row.ranks > 1 else "is"
    whole = _whole_loop(row, base)
    if whole is not None and abs(whole / speedup.value - 1) > SMALLEST_SHARE:
        steps = f"The steps of {row.label} are {word} than those of {base.label}: {speedup.value:.2f} times the {what}"
        return f"{steps} ({figures}). With waiting for data and what lies between steps it is {whole:.2f} times.{weak}"
    label = with_capital(row.label)
    return f"{label} {are} {word} than {base.label}: {speedup.value:.2f} times the {what} ({figures}).{weak}"


def _whole_loop(row: ArmRow, base: ArmRow) -> float | None:
    """The speedup of the whole loop, with data and the time between steps, which the speedup of steps leaves out."""
    if row.loop_seconds is None or base.loop_seconds is None:
        return None
    growth = row.ranks / base.ranks if row.scaling.kind == "weak" else 1.0
    return base.loop_seconds.value / row.loop_seconds.value * growth


def _held_back(row: ArmRow, base: ArmRow | None) -> HeldBack | None:
    """The largest loss, if it is larger than the uncertainty of the step's own interval; None otherwise."""
    step = row.step_seconds
    assert step is not None
    loop = row.loop_seconds.value if row.loop_seconds else step.value
    scaled = base is not None and base is not row and base.step_seconds is not None and row.scaling.kind is not None
    losses = _against_base(row, base) if scaled and base is not None else _alone(row)
    cause, seconds, evidence = max(losses, key=lambda loss: loss[1], default=("memory", 0.0, ""))
    least = max(SMALLEST_SHARE * loop, (step.high - step.low) / 2 if scaled else 0.0)
    if seconds > least:
        return HeldBack(cause, seconds, seconds / loop, evidence, ADVICE[cause])
    full = row.memory_share
    if full is not None and full >= FULL_MEMORY_SHARE:
        evidence = f"{full * 100:.0f} % of the GPU's memory is reserved, so a larger batch may not fit"
        return HeldBack("memory", 0.0, 0.0, evidence, ADVICE["memory"])
    return None


_Loss = tuple[Cause, float, str]


def _alone(row: ArmRow) -> Iterator[_Loss]:
    """Yields the parts of the loop in which an arm without a base does not compute."""
    loop = row.loop_seconds or row.step_seconds
    assert loop is not None
    data, host = row.phase_seconds.get("data") or 0.0, _host_seconds(row)
    yield "data", data, f"the loop waits {_of(data, loop.value)} for data"
    yield "host", host, f"code outside forward, backward and optimizer takes {_of(host, loop.value)}"
    if row.ranks > 1:
        yield "communication", *_communication(row, 0.0, loop.value)
    yield from _always(row, loop.value)


def _always(row: ArmRow, loop_seconds: float) -> Iterator[_Loss]:
    """Yields the losses that can be seen without a base."""
    if row.gpu_busy_share is not None and 1 - row.gpu_busy_share > IDLE_GPU_SHARE:
        waits = (row.phase_seconds.get("data") or 0.0) + _host_seconds(row)
        idle = (1 - row.gpu_busy_share) * loop_seconds - waits
        yield "launch", idle, f"the GPU runs no kernel in {(1 - row.gpu_busy_share) * 100:.0f} % of the time (NVML)"
    # Ranks that wait for each other leave a step together: the one with the longest step is then the one that waits.
    waits_for_others = bool(row.collectives or row.communication)
    if row.ranks > 1 and not waits_for_others and (row.slowest_share or 0.0) >= SAME_RANK_SHARE:
        skew = row.skew_seconds or 0.0
        share = f"{(row.slowest_share or 0.0) * 100:.0f} %"
        evidence = f"rank {row.slowest_rank} is the slowest in {share} of the steps, by {_of(skew, loop_seconds)}"
        yield "straggler", skew, evidence


def _against_base(row: ArmRow, base: ArmRow) -> Iterator[_Loss]:
    """Yields what each part takes beyond its ideal: the base's time, divided among the ranks where the work is."""
    ideal = base.ranks / row.ranks if row.scaling.kind == "strong" else 1.0
    loop = (row.loop_seconds or row.step_seconds).value  # type: ignore[union-attr]

    def beyond(name: str) -> float:
        return (row.phase_seconds.get(name) or 0.0) - ideal * (base.phase_seconds.get(name) or 0.0)

    data, optimizer = beyond("data"), beyond("optimizer")
    host = _host_seconds(row) - ideal * _host_seconds(base)
    yield "data", data, f"the loop waits {_of(data, loop)} longer for data than it should"
    yield "host", host, f"code outside forward, backward and optimizer takes {_of(host, loop)} beyond its share"
    yield "optimizer", optimizer, f"the optimizer takes {_of(optimizer, loop)} beyond its share"
    computing = beyond("forward") + beyond("backward")
    kind = row.relation.kind if row.relation is not None else ""
    if kind in ("sharded", "tensor parallel", "pipeline") or {one.kind for one in row.collectives} & IN_FORWARD_TOO:
        evidence = f"Forward and backward take {_of(computing, loop)} beyond their share, communication included."
        yield "not told apart", computing, evidence
    else:
        forward = ideal * (base.phase_seconds.get("forward") or 0.0)
        both = forward + ideal * (base.phase_seconds.get("backward") or 0.0)
        grown = beyond("forward") / forward * both if forward else computing
        communication, evidence = _communication(row, computing - grown, loop)
        yield "communication", communication, evidence
        yield _slower_computing(row, computing - communication, loop)
    yield from _always(row, loop)


def _communication(row: ArmRow, backward_seconds: float, loop_seconds: float) -> tuple[float, str]:
    """Communication of a step by the best evidence there is, and that evidence.

    `backward_seconds` is the growth of backward beyond that of forward. Messages are sent in backward and slow down the
    computing beside them, so this is closer to their whole cost than the reducer's own clock, which sees only waits.
    """
    chosen = preferred_communication(row.communication, row.change)
    if chosen is not None and chosen.method == BY_REMOVAL:
        return chosen.seconds.value, f"{_of(chosen.seconds.value, loop_seconds)} of every step, measured by removing it"
    seen = max(chosen.seconds.value if chosen else 0.0, row.blocked_seconds or 0.0)
    if not row.collectives or seen >= backward_seconds:
        return seen, f"{_of(seen, loop_seconds)} of every step, not hidden by computing"
    return backward_seconds, f"backward takes {_of(backward_seconds, loop_seconds)} more than forward's growth explains"


def _slower_computing(row: ArmRow, seconds: float, loop_seconds: float) -> _Loss:
    if row.scaling.kind == "weak":
        evidence = f"the same forward and backward take {_of(seconds, loop_seconds)} longer beside other ranks"
        return "shared machine", seconds, evidence
    batch = f" of {row.samples_per_step / row.ranks:g} samples a rank" if row.samples_per_step else ""
    shared = ", because it is small or because ranks share memory and caches" if row.device == "cpu" else ""
    share = f"{_of(seconds, loop_seconds)} more than their share of the whole batch{shared}"
    evidence = f"forward and backward{batch} take {share}"
    return "batch too small", seconds, evidence


def _host_seconds(row: ArmRow) -> float:
    """Time of a loop that is neither data nor forward, backward, optimizer or a collective."""
    rest = max((row.phase_seconds.get("rest") or 0.0) - (row.blocked_seconds or 0.0), 0.0)
    return rest + (row.between_seconds or 0.0)


def _of(seconds: float, loop_seconds: float) -> str:
    return f"{seconds_text(seconds)} ({seconds / loop_seconds * 100:.0f} %)"
