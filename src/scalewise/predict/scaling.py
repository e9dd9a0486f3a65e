"""How a script scales: step, throughput, speedup and efficiency against one rank for every number of ranks.

Between and beyond the numbers that were rehearsed the model is run on their tapes: with weak scaling they stay as they
are, with strong scaling the batch of a rank shrinks and computing follows `predict.work`. Between two rehearsals both
are moved there, and the nearer one counts more.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.propagate import exact
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.relation import Relation
from scalewise.predict.altered import among, with_batch
from scalewise.predict.answer import Answer, AtRanks, Base
from scalewise.predict.differing import FROM_RANK_TO_RANK
from scalewise.predict.prediction import LEVEL, Bound, Predicted, step_seconds
from scalewise.predict.work import WorkLine, work_line

Kind = Literal["strong", "weak"]
POINTS = 24  # of a curve
SAME = 0.02  # batches that differ by less are the same: the last one of an epoch may be short
NEARLY_SAME = 0.3  # a batch that is shared rounded up grows with the ranks, by less than this until a rank has few
FAR_LESS = 0.5  # of the logarithm: all samples must vary that much less than those of a rank
SURELY_TOO_GOOD = 1.1  # lower end of an efficiency: caches make ranks a little better than one alone, not more
TOO_GOOD = 1.5  # an efficiency that no cache explains, however wide its interval is on a busy machine
OWN_SAMPLES = "that every rank has samples of its own, which is in doubt here"


@dataclass(frozen=True)
class Figures:
    """What one number of ranks does; speedup and efficiency are of throughput, against one rank."""

    step: Estimate  # seconds
    throughput: Estimate | None  # samples a second of all ranks
    speedup: Estimate
    efficiency: Estimate


@dataclass(frozen=True)
class ScalingRow:
    """One number of ranks."""

    ranks: int
    predicted: Figures
    measured: Figures | None
    ideal: Figures  # as quick as one rank, times as many
    samples: float | None  # of all ranks in one step
    bound: Bound
    compute_seconds: float  # of a rank, predicted
    exposed_share: float  # of the step: computing stood still for a message, or was slowed by one


@dataclass(frozen=True)
class CurvePoint:
    """Between the numbers of ranks that were rehearsed."""

    ranks: int
    efficiency: Estimate


@dataclass(frozen=True)
class ScalingTable:
    """All numbers of ranks, and what their comparison rests on."""

    kind: Kind
    base: Base  # one rank
    base_modelled: bool  # nobody ran or rehearsed one rank: its step is computing alone
    rows: tuple[ScalingRow, ...]
    guesses: tuple[str, ...]
    together: str = ""  # how ranks work on one batch, in sentences; empty: each has its own, as far as is known
    doubt: str = ""  # why samples of all ranks may not be what is told, in sentences; empty: nothing speaks against it

    @property
    def further(self) -> tuple[ScalingRow, ...]:
        """Rows of more ranks than one, which the base stands for; empty: there is nothing to scale."""
        return tuple(row for row in self.rows if row.ranks > 1)

    @property
    def goes_on(self) -> bool:
        """Whether anything can be said of numbers of ranks that were not rehearsed."""
        return bool(self.further) and not self.doubt and not self.together


def scaling_table(answer: Answer) -> ScalingTable | None:
    """From an answer with at least one prediction."""
    if not answer.at:
        return None
    kind, guesses = scaling_kind(answer)
    curve = Curve(answer, kind)
    base = answer.base or curve.base()
    rows = tuple(_row(one, base, kind) for one in answer.at)
    together = _together(answer)
    if answer.base is None:
        alone = "all ranks together compute" if together else "the computing that was rehearsed"
        guesses = (*guesses, f"that one rank alone takes as long as {alone}")
    doubt = "" if together else _doubt(answer, rows)
    if doubt:
        guesses = (*guesses, OWN_SAMPLES)
    return ScalingTable(kind, base, answer.base is None, rows, guesses, together, doubt)


def _together(answer: Answer) -> str:
    """What ranks that work on one batch are to each other; empty: none were seen to."""
    shared = [one for one in map(_relation, answer.at) if one is not None and one.shares_batches and one.batches]
    if not shared:
        return ""
    last = shared[-1]
    return (
        f"{last.kind.capitalize()}: {last.evidence}. So samples count once for all ranks that share them, and nothing "
        "is said of numbers of ranks that were not rehearsed."
    )


def _relation(at: AtRanks) -> Relation | None:
    return at.rehearsal.relation


def _doubt(answer: Answer, rows: Sequence[ScalingRow]) -> str:
    """Ranks that share a batch each tell all of it, and nothing on a tape says so: only what cannot be shows it."""
    kinds = sorted({one.kind for at in answer.at for one in at.rehearsal.typical.messages} & FROM_RANK_TO_RANK)
    best = max((row for row in rows if row.ranks > 1 and _too_good(row)), key=_efficiency, default=None)
    if kinds:
        why = f"this script passes messages on from rank to rank ({', '.join(kinds)}), as the stages of a pipeline do"
    elif best is not None:
        why = f"an efficiency of {100 * _efficiency(best):.0f} % at {best.ranks} ranks is hardly possible then"
    else:
        return ""
    return (
        f"Samples are counted as if every rank had its own, but {why}. Where ranks share a batch (tensor or pipeline "
        "parallel), step times hold, while samples/s, speedup and efficiency do not: they are too large by as many "
        "times as ranks share one batch. So nothing is said of where efficiency falls off."
    )


def _too_good(row: ScalingRow) -> bool:
    told = [one.efficiency for one in (row.predicted, row.measured) if one is not None]
    return any(one.low > SURELY_TOO_GOOD or one.value > TOO_GOOD for one in told)


def _efficiency(row: ScalingRow) -> float:
    """What was measured, before what was predicted."""
    return (row.measured or row.predicted).efficiency.value


def scaling_kind(answer: Answer) -> tuple[Kind, tuple[str, ...]]:
    """As the samples tell; as it was asked for where they do not; and what is guessed."""
    points = [(one.ranks, one.predicted.samples) for one in answer.at]
    if {ranks for ranks, _ in points} == {1}:
        return "weak", ()  # nothing is scaled
    if answer.base is not None:
        points.insert(0, (1, answer.base.samples))
    known = [(ranks, samples) for ranks, samples in points if samples]
    if len({ranks for ranks, _ in known}) > 1:
        if _same([samples for _, samples in known]):
            return "strong", ()
        if _same([samples / ranks for ranks, samples in known]):
            return "weak", ()
        if _nearly_same(known):
            totals = sorted(samples for _, samples in known)
            nearly = f"{totals[0]:g} to {totals[-1]:g} samples"
            return "strong", (f"that all ranks share one batch: the script's are only nearly the same, {nearly}",)
        return "weak", ("that further ranks get a batch as large: the script's batches are neither of the two",)
    if _together(answer):
        return "strong", ()
    if answer.scaling == "strong" or answer.scaling == "weak":
        return answer.scaling, ()
    why = "only one number of ranks tells its samples" if known else "how many samples a step has is not known"
    return "weak", (f"that the batch of a rank stays as it is with more ranks: {why}",)


def _same(values: Sequence[float]) -> bool:
    return max(values) <= (1 + SAME) * min(values)


def _nearly_same(known: Sequence[tuple[int, float]]) -> bool:
    """Of all ranks together, and far more so than those of one rank: as where a batch is shared rounded up."""
    totals = [samples for _, samples in known]
    each = [samples / ranks for ranks, samples in known]
    total = max(totals) / min(totals)
    return total <= 1 + NEARLY_SAME and log(total) <= FAR_LESS * log(max(each) / min(each))


def _row(at: AtRanks, base: Base, kind: Kind) -> ScalingRow:
    line, ranks = at.predicted.timeline, at.ranks
    measured = None
    if at.measured is not None:
        measured = figures(at.measured.step, at.measured.samples, ranks, base, kind)
    return ScalingRow(
        ranks=ranks,
        predicted=figures(at.predicted.step, at.predicted.samples, ranks, base, kind),
        measured=measured,
        ideal=_ideal(at.predicted, base, kind),
        samples=at.predicted.samples,
        bound=at.predicted.bound,
        compute_seconds=line.compute_seconds,
        exposed_share=(line.exposed_seconds + line.slowed_seconds) / line.step_seconds if line.step_seconds else 0.0,
    )


def figures(step: Estimate, samples: float | None, ranks: int, base: Base, kind: Kind) -> Figures:
    """A step against that of one rank, both with intervals of one level: what both are unsure of adds in squares."""
    per_step = samples / base.samples if samples and base.samples else (float(ranks) if kind == "weak" else 1.0)
    speedup = ratio_of(base.step, step).times(per_step)
    return Figures(
        step=step,
        throughput=step.through(lambda seconds: samples / seconds, positive=True) if samples else None,
        speedup=speedup,
        efficiency=speedup.times(1 / ranks),
    )


def _ideal(predicted: Predicted, base: Base, kind: Kind) -> Figures:
    samples, ranks = predicted.samples, predicted.ranks
    per_step = samples / base.samples if samples and base.samples else (float(ranks) if kind == "weak" else 1.0)
    seconds = base.step.value * per_step / ranks
    return figures(exact(seconds, LEVEL), samples, ranks, _exact(base), kind)


def _exact(base: Base) -> Base:
    return replace(base, step=exact(base.step.value, LEVEL))


def _log(above: float, below: float) -> float:
    return max(0.0, log(above / below)) if above > 0 and below > 0 else 0.0


def curve_points(answer: Answer, table: ScalingTable) -> tuple[CurvePoint, ...]:
    """From two ranks to as many as were rehearsed, evenly on a logarithmic axis, or only those."""
    curve, last = Curve(answer, table.kind), answer.at[-1].ranks
    numbers = set(curve.numbers)
    if not table.together:
        numbers |= {max(2, round(2 * (max(last, 2) / 2) ** (step / POINTS))) for step in range(POINTS + 1)}
    return tuple(
        CurvePoint(ranks, figures(curve.step(ranks), curve.samples(ranks), ranks, table.base, table.kind).efficiency)
        for ranks in sorted(numbers)
    )


class Curve:
    """The step over any number of ranks."""

    def __init__(self, answer: Answer, kind: Kind) -> None:
        self._answer, self._kind = answer, kind
        self._at = answer.at
        self.numbers = [one.ranks for one in answer.at]
        self.line: WorkLine = work_line([*(one.rehearsal for one in answer.at), *answer.others])
        self._typical = [
            step_seconds(one.rehearsal.typical, answer.link, one.ranks, answer.sharing) for one in answer.at
        ]

    def base(self) -> Base:
        """One rank by the model: nothing to be sent."""
        first = self._at[0]
        samples = first.predicted.samples
        if samples is not None and self._kind == "weak":
            samples /= first.ranks
        return Base(self.step(1), samples, measured=False)

    @property
    def most_ranks(self) -> int | None:
        """With strong scaling a rank has at least one sample; None: no limit."""
        samples = self._at[0].predicted.samples
        return max(1, int(samples)) if self._kind == "strong" and samples else None

    def step(self, ranks: int) -> Estimate:
        """With the interval of the rehearsals that it comes from."""
        near = self._near(ranks)
        value = exp(sum(weight * log(self._moved(index, ranks)) for index, weight in near))
        low = sum(weight * self._reach(index)[0] for index, weight in near)
        high = sum(weight * self._reach(index)[1] for index, weight in near)
        low, high = value * exp(-low), value * exp(high)
        return replace(self._at[near[0][0]].predicted.step, value=value, low=low, high=high)

    def samples(self, ranks: int) -> float | None:
        """Of all ranks in one step: what was rehearsed where it was, so that no row is contradicted."""
        near = self._near(ranks)
        if len(near) == 1:
            return self._moved_samples(near[0][0], ranks)
        both = [(self._moved_samples(index, ranks), weight) for index, weight in near]
        if not all(samples for samples, _ in both):
            return None
        return exp(sum(weight * log(samples) for samples, weight in both if samples))

    def _moved_samples(self, index: int, ranks: int) -> float | None:
        at = self._at[index]
        if at.predicted.samples is None:
            return None
        return at.predicted.samples * (ranks / at.ranks if self._kind == "weak" else 1)

    def _near(self, ranks: int) -> list[tuple[int, float]]:
        above = bisect_left(self.numbers, ranks)
        if above == len(self.numbers):
            return [(above - 1, 1.0)]
        if above == 0 or self.numbers[above] == ranks:
            return [(above, 1.0)]
        low, high = log(self.numbers[above - 1]), log(self.numbers[above])
        weight = (log(ranks) - low) / (high - low)
        return [(above - 1, 1 - weight), (above, weight)]

    def _moved(self, index: int, ranks: int) -> float:
        """That rehearsal among other ranks, put right by what its typical step differs from its median one."""
        at = self._at[index]
        if at.ranks == ranks:
            return at.predicted.step.value
        tape = among(at.rehearsal.typical, ranks)
        if self._kind == "strong":
            tape = with_batch(tape, at.ranks / ranks, self.line)
        moved = step_seconds(tape, self._answer.link, ranks, self._answer.sharing)
        return max(moved, 1e-12) * at.predicted.step.value / max(self._typical[index], 1e-12)

    def _reach(self, index: int) -> tuple[float, float]:
        step = self._at[index].predicted.step
        return _log(step.value, step.low), _log(step.high, step.value)
