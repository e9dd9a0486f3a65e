"""Detects clocks that are read before the GPU has finished, so that they show how fast work was queued, not done."""

import itertools
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Proof
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.script_clocks import ClockSpan, spans_of, undisturbed_from
from scalewise.records.notes import BackwardNote, ClockNote, ForwardNote, StepNote
from scalewise.units import counted

CHECK = Check(
    name="clock-without-synchronise",
    group="timing",
    severity="wrong",
    detects="The script times work on a GPU and reads the clock without waiting for the GPU first.",
    why="Calls return when the work is queued. Without a wait the clock shows the time to hand it out; the work itself "
    "is charged to whatever waits next, often a line that is not timed.",
    example="start = time.time()\nloss = step(model, batch)\nprint(time.time() - start)",
    fix="torch.cuda.synchronize()\nstart = time.time()\nloss = step(model, batch)\n"
    "torch.cuda.synchronize()\nprint(time.time() - start)",
    needs="a script that asks for a GPU and reads a clock around forward passes, backward passes or steps",
    silent="A wait of any kind after the last work (synchronize, .item(), a barrier, a scaler's decision); times from "
    "one reading to the next that leave nothing out; times of long stretches, or of which no average is made; times "
    "that agree with the device's own all the same.",
)
MOST_SHARE = 0.2  # largest share of the spans of two lines that may have waited
LONG_STEPS = 50  # after so many steps, what is still queued at the end is negligible
CLOSE = 0.9  # share of the device's own time from which the script's time counts as right


@dataclass(frozen=True)
class _Timed:
    """The spans that the same expression of the source measures."""

    spans: list[ClockSpan]  # those with work in them
    unwaited: list[ClockSpan]


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for all such lines, on the lowest rank that reads clocks."""
    if not asks_for_gpu(case):
        raise Abstain("the script asks for no GPU")
    for rank in case.ranks:
        if rank.all(ClockNote):
            timed = _groups(rank, 0 if case.run.spec.on_cpu else undisturbed_from(rank))
            wrong = [one for one in timed if _is_wrong(rank, one) and not _agrees(case, rank, one)]
            wrong.sort(key=lambda one: -len(one.unwaited))
            return (_finding(case, rank, wrong),) if wrong else ()
    return ()


def asks_for_gpu(case: Case) -> bool:
    """Returns True if the script runs on a GPU, or would if there were one."""
    use = case.first.device_use
    asked = use is not None and any(name.startswith("cuda") for name in use.asked)
    wrapped = any(row.device.startswith("cuda") for row in case.first.wrappers)
    return asked or wrapped or any(row.cuda_peak_allocated_bytes for row in case.first.record.memory)


def _groups(rank: RankCase, begin: int) -> list[_Timed]:
    """Groups the spans that have work in them and begin at note `begin` or later, by what measures them."""
    measured: dict[object, list[ClockSpan]] = defaultdict(list)
    spans = [span for span in spans_of(rank) if span.works]
    later = [span for span in spans if span.begin >= begin]
    if spans and not later:
        raise Abstain("the script timed only the first passes, for which the examination itself waits for the GPU")
    for span in later:
        measured[span.where.index, span.measure].append(span)
    return [_Timed(spans, [span for span in spans if not span.waited]) for spans in measured.values()]


def _is_wrong(rank: RankCase, timed: _Timed) -> bool:
    if len(timed.unwaited) < (1 - MOST_SHARE) * len(timed.spans) or _leaves_nothing_out(rank, timed):
        return False
    steps = median(span.steps for span in timed.unwaited)
    if steps <= 1:
        return True
    measure = timed.spans[0].measure
    averaged = measure is not None and (measure.averaged or steps in measure.divisors)
    return averaged and steps < LONG_STEPS


def _leaves_nothing_out(rank: RankCase, timed: _Timed) -> bool:
    """Returns True if each span begins where the previous one ended, so that what one misses the next one contains."""
    whole = [span for span in timed.spans if span.steps]
    if len(whole) < 2 or len(whole) < len(timed.spans):
        return False
    closed = [_closed(rank, before, after) for before, after in itertools.pairwise(whole)]
    return sum(closed) >= (1 - MOST_SHARE) * len(closed)


def _closed(rank: RankCase, before: ClockSpan, after: ClockSpan) -> bool:
    """Returns True if one reading ends the first span and begins the second, or two with no work in between do."""
    if before.end == after.begin:
        return True
    downwards = before.where.function == after.started.function and before.where.line <= after.started.line
    return downwards and all(isinstance(note, ClockNote) for note in rank.notes[before.end + 1 : after.begin])


def _agrees(case: Case, rank: RankCase, timed: _Timed) -> bool:
    """Returns True if the device's own time is about the same: a wait was not seen, or there was little to do."""
    ratio = _ratio(case, rank, timed)
    return ratio is not None and ratio < 1 / CLOSE


def _finding(case: Case, rank: RankCase, wrong: list[_Timed]) -> Finding:
    timed = wrong[0]
    ratio, span = _ratio(case, rank, timed), timed.unwaited[0]
    proof: Proof = "observed" if ratio is not None or case.run.spec.on_cpu else "suspected"
    unseen = (
        " on the CPU, where each call waits: how wrong it is on a GPU cannot be seen" if case.run.spec.on_cpu else ""
    )
    by = f", {ratio:.1f} times too little" if ratio is not None else ""
    others = tuple(dict.fromkeys(one.unwaited[0].where for one in wrong[1:]))
    started = (span.started,) if span.started != span.where else ()
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The time from {short(span.started)} to {short(span.where)} is taken without waiting for the GPU in "
        f"{len(timed.unwaited)} of {counted(len(timed.spans), 'case')}{by}.",
        evidence=(
            f"work handed to the device between the two readings: {_work(span)}",
            "waits for the device between the last of it and the second reading: none",
            f"the script's own clock, median: {median(one.seconds for one in timed.unwaited) * 1000:.3g} ms{unseen}",
            *(f"the same at {short(place)}" for place in others),
        ),
        fix=f"torch.cuda.synchronize()  # before each of the two readings\n{span.where.text.partition('  #')[0]}",
        where=span.where,
        also=(*started, *others),
        price=None if ratio is None else Price(ratio, "times", "the script's own number", _HOW),
        proof=proof,
        ranks=(rank.rank,),
        steps_seen=len(rank.windows),
    )


_HOW = "the device's own time of the same work over the script's"


def _work(span: ClockSpan) -> str:
    kinds = ((ForwardNote, "forward pass"), (BackwardNote, "backward pass"), (StepNote, "step"))
    counts = [(sum(isinstance(note, kind) for note in span.notes), name) for kind, name in kinds]
    return ", ".join(counted(count, name) for count, name in counts if count)


def _ratio(case: Case, rank: RankCase, timed: _Timed) -> float | None:
    """Returns the device's own time of the work in the spans over the script's time; None if it was not measured."""
    if case.run.spec.on_cpu or len(rank.record.steps) != len(rank.windows) or not rank.windows:
        return None
    ratios = []
    for span in timed.unwaited:
        device_ns = _device_ns(rank, span)
        if device_ns is not None and span.seconds > 0:
            ratios.append(device_ns / 1e9 / span.seconds)
    return median(ratios) if ratios else None


def _device_ns(rank: RankCase, span: ClockSpan) -> int | None:
    """Returns the device's time of the whole steps in the span, or of its passes if it is shorter than a step."""
    done = sum(isinstance(note, StepNote) for note in rank.notes[: span.begin])
    rows = rank.record.steps[done : done + max(1, span.steps)]
    has = {kind: any(isinstance(note, kind) for note in span.notes) for kind in (ForwardNote, BackwardNote, StepNote)}
    if all(has.values()):
        return sum(row.step_ns for row in rows)
    if len(rows) != 1:
        return None
    named = ((ForwardNote, rows[0].forward_ns), (BackwardNote, rows[0].backward_ns), (StepNote, rows[0].optimizer_ns))
    parts = [value for kind, value in named if has[kind]]
    return None if None in parts else sum(value for value in parts if value is not None)
