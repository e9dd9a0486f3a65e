"""Computes how a script scales: step, throughput, speedup and efficiency against one rank.

For numbers of ranks that were not rehearsed the model is run on the tapes of the nearest ones: with weak scaling they
stay as they are, with strong scaling the batch of a rank shrinks and computing follows `predict.compute_work`. Between
two rehearsals both are converted to that number, and the nearer one has more weight.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal

from scalewise.analysis.estimate import Estimate, exact
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.relation import Relation
from scalewise.predict.answer import AtRanks, Base, RehearsalAnswer
from scalewise.predict.compute_work import SAME_BATCH, WorkLine, work_line
from scalewise.predict.prediction import LEVEL, Bound, Predicted, step_seconds
from scalewise.predict.rank_differences import FROM_RANK_TO_RANK
from scalewise.predict.what_if import among, with_batch

Kind = Literal["strong", "weak"]
POINTS = 24  # of a curve
NEARLY_SAME = 0.3  # a shared batch that is rounded up grows with the ranks, by less than this until a rank has few
FAR_LESS = 0.5  # of the logarithm: samples of all ranks must vary that much less than those of one rank
SURELY_TOO_GOOD = 1.1  # lower end of an efficiency: caches make ranks a little better than one alone, but not more
TOO_GOOD = 1.5  # an efficiency that no cache explains, however wide its interval is on a busy machine
OWN_SAMPLES = "that every rank has samples of its own, which is in doubt here"


@dataclass(frozen=True)
class Figures:
    """The figures of one number of ranks; speedup and efficiency are of throughput, against one rank."""

    step: Estimate  # seconds
    throughput: Estimate | None  # samples a second of all ranks
    speedup: Estimate
    efficiency: Estimate


@dataclass(frozen=True)
class ScalingRow:
    """The scaling of one number of ranks."""

    ranks: int
    predicted: Figures
    measured: Figures | None
    ideal: Figures  # as quick as one rank, times the number of ranks
    samples: float | None  # of all ranks in one step
    bound: Bound
    compute_seconds: float  # of a rank, predicted
    exposed_share: float  # of the step in which computing stood still for a message, or was slowed by one


@dataclass(frozen=True)
class CurvePoint:
    """A point of the efficiency curve, also between the numbers of ranks that were rehearsed."""

    ranks: int
    efficiency: Estimate


@dataclass(frozen=True)
class ScalingTable:
    """The rows of all numbers of ranks, and the guesses in their comparison."""

    kind: Kind
    base: Base  # one rank
    base_modelled: bool  # one rank was neither run nor rehearsed: its step is computing alone
    rows: tuple[ScalingRow, ...]
    guesses: tuple[str, ...]
    together: str = ""  # how ranks work on one batch, in sentences; empty: each has its own, as far as known
    doubt: str = ""  # why the samples of all ranks may be wrong, in sentences; empty: no reason found

    @property
    def further(self) -> tuple[ScalingRow, ...]:
        """Rows of more than one rank, for which the base stands; empty if there is nothing to scale."""
        return tuple(row for row in self.rows if row.ranks > 1)

    @property
    def goes_on(self) -> bool:
        """Tells whether anything can be said about numbers of ranks that were not rehearsed."""
        return bool(self.further) and not self.doubt and not self.together


def scaling_table(answer: RehearsalAnswer) -> ScalingTable | None:
    """The scaling table of an answer; None if it has no prediction."""
    if not answer.at:
        return None
    kind, guesses = scaling_kind(answer)
    curve = ScalingCurve(answer, kind)
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


def _together(answer: RehearsalAnswer) -> str:
    """Sentences about ranks that work on one batch; empty if none were seen to."""
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


def _doubt(answer: RehearsalAnswer, rows: Sequence[ScalingRow]) -> str:
    """Sentences that doubt the samples, if messages or an impossible efficiency suggest that ranks share a batch."""
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
    """The measured efficiency, or the predicted one if none was measured."""
    return (row.measured or row.predicted).efficiency.value


def scaling_kind(answer: RehearsalAnswer) -> tuple[Kind, tuple[str, ...]]:
    """The kind of scaling that the samples show, or else the one asked for; and what is guessed about it."""
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
    return max(values) <= (1 + SAME_BATCH) * min(values)


def _nearly_same(known: Sequence[tuple[int, float]]) -> bool:
    """Tells whether the samples of all ranks vary far less than those of one, as if a shared batch is rounded up."""
    totals = [samples for _, samples in known]
    each = [samples / ranks for ranks, samples in known]
    total = max(totals) / min(totals)
    return total <= 1 + NEARLY_SAME and log(total) <= FAR_LESS * log(max(each) / min(each))


def _row(at: AtRanks, base: Base, kind: Kind) -> ScalingRow:
    line, ranks = at.predicted.timeline, at.ranks
    measured = None
    if at.measured is not None:
        measured = figures_against_base(at.measured.step, at.measured.samples, ranks, base, kind)
    return ScalingRow(
        ranks=ranks,
        predicted=figures_against_base(at.predicted.step, at.predicted.samples, ranks, base, kind),
        measured=measured,
        ideal=_ideal(at.predicted, base, kind),
        samples=at.predicted.samples,
        bound=at.predicted.bound,
        compute_seconds=line.compute_seconds,
        exposed_share=(line.exposed_seconds + line.slowed_seconds) / line.step_seconds if line.step_seconds else 0.0,
    )


def figures_against_base(step: Estimate, samples: float | None, ranks: int, base: Base, kind: Kind) -> Figures:
    """A step compared with that of one rank, both with intervals of one level: their uncertainties add in squares."""
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
    return figures_against_base(exact(seconds, LEVEL), samples, ranks, _exact(base), kind)


def _exact(base: Base) -> Base:
    return replace(base, step=exact(base.step.value, LEVEL))


def _log(above: float, below: float) -> float:
    return max(0.0, log(above / below)) if above > 0 and below > 0 else 0.0


def curve_points(answer: RehearsalAnswer, table: ScalingTable) -> tuple[CurvePoint, ...]:
    """Points from two ranks to as many as were rehearsed, evenly on a logarithmic axis; if shared, rehearsed ones."""
    curve, last = ScalingCurve(answer, table.kind), answer.at[-1].ranks
    numbers = set(curve.numbers)
    if not table.together:
        numbers |= {max(2, round(2 * (max(last, 2) / 2) ** (step / POINTS))) for step in range(POINTS + 1)}
    return tuple(
        CurvePoint(
            ranks,
            figures_against_base(curve.step(ranks), curve.samples(ranks), ranks, table.base, table.kind).efficiency,
        )
        for ranks in sorted(numbers)
    )


class ScalingCurve:
    """The step as a function of the number of ranks."""

    def __init__(self, answer: RehearsalAnswer, kind: Kind) -> None:
        self._answer, self._kind = answer, kind
        self._at = answer.at
        self.numbers = [one.ranks for one in answer.at]
        self.line: WorkLine = work_line([*(one.rehearsal for one in answer.at), *answer.others])
        self._typical = [
            step_seconds(one.rehearsal.typical, answer.link, one.ranks, one.predicted.sharing) for one in answer.at
        ]

    def base(self) -> Base:
        """The step of one rank by the model, without messages."""
        first = self._at[0]
        samples = first.predicted.samples
        if samples is not None and self._kind == "weak":
            samples /= first.ranks
        return Base(self.step(1), samples, measured=False)

    @property
    def most_ranks(self) -> int | None:
        """The largest number of ranks: with strong scaling each has at least one sample; None: no limit."""
        samples = self._at[0].predicted.samples
        return max(1, int(samples)) if self._kind == "strong" and samples else None

    def step(self, ranks: int) -> Estimate:
        """The predicted step, with the interval of the rehearsals from which it comes."""
        near = self._near(ranks)
        value = exp(sum(weight * log(self._moved(index, ranks)) for index, weight in near))
        low = sum(weight * self._reach(index)[0] for index, weight in near)
        high = sum(weight * self._reach(index)[1] for index, weight in near)
        low, high = value * exp(-low), value * exp(high)
        return replace(self._at[near[0][0]].predicted.step, value=value, low=low, high=high)

    def samples(self, ranks: int) -> float | None:
        """The samples of all ranks in one step: the rehearsed value if there is one, so that no row is contradicted."""
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
        """The step of that rehearsal among other ranks, corrected by the ratio of its median to its typical step."""
        at = self._at[index]
        if at.ranks == ranks:
            return at.predicted.step.value
        tape = among(at.rehearsal.typical, ranks)
        if self._kind == "strong":
            tape = with_batch(tape, at.ranks / ranks, self.line)
        moved = step_seconds(tape, self._answer.link, ranks, at.predicted.sharing)
        return max(moved, 1e-12) * at.predicted.step.value / max(self._typical[index], 1e-12)

    def _reach(self, index: int) -> tuple[float, float]:
        step = self._at[index].predicted.step
        return _log(step.value, step.low), _log(step.high, step.value)
