"""Possible changes, ranked by predicted throughput; for each, the changed step is simulated again.

The gain of a change is a ratio of two runs of the same model, so an uncertainty that both share cancels: each part is
shifted by its uncertainty in both, and only the resulting shift of the ratio remains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.memory_use import MemoryLine
from scalewise.predict.answer import AtRanks, RehearsalAnswer
from scalewise.predict.compute_work import PHASES, WorkLine, samples_of
from scalewise.predict.faster_links import faster_links
from scalewise.predict.link import Link
from scalewise.predict.order import certainty
from scalewise.predict.prediction import QUANTILE, OnLink, predict
from scalewise.predict.tape import Tape
from scalewise.predict.timeline import Sharing, simulate
from scalewise.predict.what_if import (
    among,
    bucket_bytes,
    grouped_bytes,
    groups_by_cap,
    groups_like,
    regrouped,
    with_accumulation,
    with_batch,
    with_smaller_gradients,
)
from scalewise.units import bytes_text

FACTORS = (2, 4)
CAPS_MIB = (1, 2, 5, 10, 25, 50, 100, 250, 1000)
LEAST_GAIN = 0.005  # smaller gains count as none
SAME_BYTES = 0.02  # messages that differ by less count as the same: a bias more or less in a bucket changes nothing
HALF = ("bfloat16", "float16")
NO_FINE = "no rehearsal with small buckets was made from which others could be put together"
PRECISION = "only a rehearsal of the script with it tells what it makes of computing; rehearse that and compare"
ONE_BATCH = "the changes that can be tried are of ranks with a batch each, and these work on one together"
Verdict = Literal["helps", "may help", "does not help", "does not fit"]


@dataclass(frozen=True)
class PredictedChange:
    """One change, with its predicted step and gain."""

    what: str  # batch per rank x2
    why: str  # what the change does, in words
    step: Estimate  # seconds, predicted
    gain: Estimate  # throughput with the change over throughput without it
    verdict: Verdict
    peak_bytes: float | None = None
    guesses: tuple[str, ...] = ()
    certainty: float | None = None  # probability that it gains more than the next of its list; None: it is the last


@dataclass(frozen=True)
class LeftOut:
    """A change about which nothing can be said."""

    what: str
    reason: str


@dataclass(frozen=True)
class Changes:
    """The changes for one number of ranks, the largest gain first."""

    ranks: int
    changes: tuple[PredictedChange, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class _Variant:
    """A change before it is simulated; `before` is the tape with which it is compared."""

    what: str
    why: str
    before: Tape
    after: Tape
    link: Link
    more_samples: float = 1.0
    batch: float = 1.0  # times as many samples in a micro-batch
    guesses: tuple[str, ...] = ()


def changes_at(
    answer: RehearsalAnswer,
    at: AtRanks,
    line: WorkLine,
    memory: MemoryLine | None = None,
    capacity_bytes: float | None = None,
) -> Changes:
    """All changes that can be tried on this number of ranks; none if several ranks work on one batch."""
    relation = at.rehearsal.relation
    if relation is not None and relation.shares_batches:
        return Changes(at.ranks, (), (LeftOut("what to change", f"{ONE_BATCH} ({relation.kind})"),))
    found: list[PredictedChange] = []
    left_out: list[LeftOut] = []
    for one in _tried(answer, at, line):
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            found.append(_run(one, answer, at, memory, capacity_bytes))
    ranked = sorted(found, key=lambda one: (one.verdict == "does not fit", -one.gain.value))
    following = [*(one.gain for one in ranked[1:]), None]
    compared = tuple(
        replace(one, certainty=certainty(one.gain, after) if after is not None else None)
        for one, after in zip(ranked, following, strict=True)
    )
    return Changes(at.ranks, compared, tuple(left_out))


def _tried(answer: RehearsalAnswer, at: AtRanks, line: WorkLine) -> Iterator[_Variant | LeftOut]:
    tape = at.rehearsal.typical
    for factor in FACTORS:
        samples = samples_of(tape)
        yield _Variant(
            f"batch per rank x{factor}", "so many times the samples in a step, with the same messages", tape,
            with_batch(tape, factor, line), answer.link, factor, factor, line.beyond(samples * factor),
        )  # fmt: skip
    for factor in FACTORS:
        yield _accumulated(answer, tape, factor)
    yield _smaller(answer, at)
    if not _half(at):
        yield LeftOut("computing in bf16", PRECISION)
    yield from _buckets(answer, at, line)
    yield from _links(answer, at)


def _accumulated(answer: RehearsalAnswer, tape: Tape, factor: int) -> _Variant | LeftOut:
    what = f"accumulation x{factor}"
    after = with_accumulation(tape, factor)
    if after is None:
        return LeftOut(what, "steps differ" if tape.steps > 1 else "no forward and backward pass is on the tape")
    each = len(after.messages) > len(tape.messages)  # as the script does now
    when = "gradients sent in every micro-batch, as now" if each else "gradients sent after the last only (no_sync)"
    why = f"so many times the samples in a step, {when}"
    return _Variant(what, why, tape, after, answer.link, factor)


def _smaller(answer: RehearsalAnswer, at: AtRanks) -> _Variant | LeftOut:
    what, tape = "gradients sent in bf16", at.rehearsal.typical
    dtypes = at.rehearsal.dtypes
    if _half(at):
        return LeftOut(what, f"they are {' and '.join(dtypes)} already")
    after = with_smaller_gradients(tape, 0.5)
    if after == tape:
        return LeftOut(what, "no message of the step carries gradients of all ranks")
    guesses = ["that turning gradients into bf16 and back costs no time"]
    guesses += [] if dtypes else ["that gradients are float32 now"]
    return _Variant(what, "half the bytes of every gradient", tape, after, answer.link, guesses=tuple(guesses))


def _half(at: AtRanks) -> bool:
    dtypes = at.rehearsal.dtypes
    return bool(dtypes) and all(one.removeprefix("torch.") in HALF for one in dtypes)


def _buckets(answer: RehearsalAnswer, at: AtRanks, line: WorkLine) -> Iterator[_Variant | LeftOut]:
    """Yields the best bucket size only, or the reason why none can be tried: the other sizes add nothing."""
    fine, present = answer.fine, bucket_bytes(at.rehearsal.typical)
    if fine is None:
        yield LeftOut("bucket size", NO_FINE)
        return
    sizes = bucket_bytes(fine.typical)
    if len(sizes) <= len(present) or abs(sum(sizes) - sum(present)) > 0.01 * sum(present):
        yield LeftOut(
            "bucket size", "the rehearsal with small buckets does not have the same gradients in smaller ones"
        )
        return
    tape = with_batch(fine.typical, samples_of(at.rehearsal.typical) / samples_of(fine.typical), line)
    before = among(regrouped(tape, groups_like(sizes, present)), at.ranks)
    tried: dict[tuple[int, ...], int] = {}
    for cap in CAPS_MIB:
        tried.setdefault(groups_by_cap(sizes, cap * 2**20), cap)
    options = [
        _Variant(
            f"buckets of {cap} MiB", _instead(grouped_bytes(sizes, groups), present), before,
            among(regrouped(tape, groups), at.ranks), answer.link,
        )
        for groups, cap in tried.items()
        if not _as_now(grouped_bytes(sizes, groups), present)
    ]  # fmt: skip
    yield from sorted(options, key=lambda one: _seconds(one.after, at.ranks, one.link, at.predicted.sharing))[:1]


def _as_now(buckets: Sequence[float], present: Sequence[float]) -> bool:
    """Tells whether there are as many messages as now, each of about the same size."""
    return len(buckets) == len(present) and all(
        abs(one - now) <= SAME_BYTES * now for one, now in zip(buckets, present, strict=True)
    )


def _instead(buckets: Sequence[float], present: Sequence[float]) -> str:
    """A text that compares the messages by their number, or by their largest size if there are equally many."""
    if len(buckets) != len(present):
        return f"{_count(len(buckets), 'message')} instead of {len(present)}"
    largest, now = bytes_text(max(buckets)), bytes_text(max(present))
    return f"{_count(len(buckets), 'message')} of up to {largest}, instead of up to {now}"


def _links(answer: RehearsalAnswer, at: AtRanks) -> Iterator[_Variant | LeftOut]:
    if at.predicted.sharing.work > 0:
        yield LeftOut("faster link", "the ranks' own cores carry the messages here, and they would carry them there")
        return
    tape = at.rehearsal.typical
    links = faster_links(answer.link, at.ranks)
    if not links:
        yield LeftOut("faster link", f"the catalogue has none that is faster than {answer.link.name}")
    for link in links:
        inside = link.inside != answer.link.inside
        rate = (link.inside if inside or link.between is None else link.between).bytes_per_second
        why = f"{rate / 1e9:.3g} GB/s {'each way for a rank' if inside else 'out of a node'}"
        yield _Variant(f"link {link.name}", why, tape, tape, link, guesses=link.guesses)


def _run(
    one: _Variant, answer: RehearsalAnswer, at: AtRanks, memory: MemoryLine | None, capacity_bytes: float | None
) -> PredictedChange:
    gain = _gain(one, answer, at)
    known = at.predicted
    spread = known.spread if one.link is answer.link else replace(known.spread, link=one.link.spread)
    there = predict(at.rehearsal.with_tapes([one.after]), one.link, known.sharing, spread).step
    # Corrected by the ratio of the median step to the typical one, as the prediction itself is.
    right = at.predicted.step.value * one.more_samples / gain.value / there.value if there.value else 1.0
    peak = memory.bytes_with(samples_of(at.rehearsal.typical) * one.batch) if memory and one.batch != 1 else None
    verdict: Verdict = "helps" if gain.low > 1 + LEAST_GAIN else "may help"
    if gain.value <= 1 + LEAST_GAIN:
        verdict = "does not help"
    if peak is not None and capacity_bytes is not None and peak > capacity_bytes:
        verdict = "does not fit"
    return PredictedChange(one.what, one.why, there.times(right), gain, verdict, peak, one.guesses)


def _gain(one: _Variant, answer: RehearsalAnswer, at: AtRanks) -> Estimate:
    """The ratio of throughputs; its interval combines how far each part's own spread, or the errors seen, moves it."""
    spread, sharing, ranks = at.predicted.spread, at.predicted.sharing, at.ranks
    compute, wires, other = (max(part, spread.model) for part in (spread.compute, spread.link, one.link.spread))

    def ratio(slower: float = 0.0, before: float = 0.0, after: float = 0.0) -> float:
        longer = dict.fromkeys(PHASES, exp(QUANTILE * slower))
        was = _seconds(one.before.scaled(longer), ranks, answer.link, sharing, exp(QUANTILE * before))
        becomes = _seconds(one.after.scaled(longer), ranks, one.link, sharing, exp(QUANTILE * after))
        return one.more_samples * was / becomes if becomes > 0 else 1.0

    value = ratio()
    moved = [ratio(slower=compute)]
    moved += (
        [ratio(before=wires, after=wires)] if one.link is answer.link else [ratio(before=wires), ratio(after=other)]
    )
    reach = hypot(*(log(each / value) for each in moved))
    low, high = value * exp(-reach), value * exp(reach)
    return replace(at.predicted.step, value=value, low=low, high=high, method="ratio of two predictions")


def _seconds(tape: Tape, ranks: int, link: Link, sharing: Sharing, factor: float = 1.0) -> float:
    return simulate(tape, OnLink(link, ranks, factor), sharing).step_seconds


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
