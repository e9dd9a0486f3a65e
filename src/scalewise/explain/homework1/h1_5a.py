"""H1.5A: what a delay on every rank does to the speedup, predicted by Amdahl's law and measured."""

from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.laws import delayed_fraction, delayed_speedup
from scalewise.analysis.propagate import propagate
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import few_gpus, not_scaling, scales
from scalewise.explain.words import listed, number_phrase, percent_text, seconds_phrase
from scalewise.units import seconds_text

ROW = "H1.5A"
EXPERIMENT = "delay"
TABLE = "h1-5a-delay"
EFFECT = "What does the delay do to scaling, and is the effect linear?"
AMDAHL = "How does it relate to Amdahl's law?"
VAGUE = 0.2  # of a speedup, to either side: a wider interval agrees with almost any law
VAGUE_GROWTH = 0.5  # of the delay: growth that is known less well cannot be called the delay, nor something else


@dataclass(frozen=True)
class DelayRow:
    """One number of ranks, without and with the delay; predictions only where the arm is real scaling."""

    ranks: int
    plain: ArmRow | None
    delayed: ArmRow | None
    growth_seconds: Estimate | None  # of the step
    predicted: Estimate | None  # speedup with the delay


@dataclass(frozen=True)
class Delay:
    """The experiment: the delay that was asked for, what it really added on one rank, and its rows."""

    asked_seconds: float
    serial_seconds: Estimate | None  # added to one rank's step
    serial_fraction: Estimate | None  # of the delayed step, with the plain one's Karp and Flatt fraction
    rows: tuple[DelayRow, ...]

    @property
    def compared(self) -> tuple[tuple[int, Estimate, Estimate, Estimate], ...]:
        """(ranks, speedup without, with, predicted) where all three are there."""
        found = []
        for row in self.rows:
            without, with_delay = _speedup(row.plain), _speedup(row.delayed)
            if row.ranks > 1 and without and with_delay and row.predicted:
                found.append((row.ranks, without, with_delay, row.predicted))
        return tuple(found)


def delay(evidence: Evidence) -> Delay | None:
    """None where the experiment has no delay axis with zero and something else."""
    rows = evidence.rows(EXPERIMENT)
    values = sorted({float(row.axes["delay"]) for row in rows if "delay" in row.axes})
    if len(values) < 2 or values[0] != 0:
        return None
    asked = values[-1]
    by_ranks = sorted({row.ranks for row in rows})
    plain = {row.ranks: row for row in rows if float(row.axes["delay"]) == 0}
    late = {row.ranks: row for row in rows if float(row.axes["delay"]) == asked}
    serial = _growth(plain.get(1), late.get(1))
    base = plain[1].step_seconds if 1 in plain and scales(plain[1]) else None
    made = tuple(_row(ranks, plain.get(ranks), late.get(ranks), base, serial) for ranks in by_ranks)
    fraction = _fraction(plain, base, serial)
    return Delay(asked, serial, fraction, made)


def _row(
    ranks: int, plain: ArmRow | None, late: ArmRow | None, base: Estimate | None, serial: Estimate | None
) -> DelayRow:
    predicted = None
    if plain and scales(plain) and plain.step_seconds and base and serial and ranks > 1:
        predicted = delayed_speedup(base, plain.step_seconds, serial)
    return DelayRow(ranks, plain, late, _growth(plain, late), predicted)


def _growth(plain: ArmRow | None, late: ArmRow | None) -> Estimate | None:
    if plain is None or late is None or plain.step_seconds is None or late.step_seconds is None:
        return None
    return propagate(lambda a, b: b - a, plain.step_seconds, late.step_seconds, method="step with less step without")


def _fraction(plain: dict[int, ArmRow], base: Estimate | None, serial: Estimate | None) -> Estimate | None:
    """At the most ranks that scale."""
    known = [row.scaling.serial_fraction for _, row in sorted(plain.items()) if scales(row)]
    last = next((one for one in reversed(known) if one is not None), None)
    return delayed_fraction(last, base, serial) if last and base and serial else None


def _speedup(row: ArmRow | None) -> Estimate | None:
    return row.scaling.speedup if row is not None and scales(row) else None


def effect_answer(evidence: Evidence, found: Delay | None) -> Answer:
    """Whether the speedup falls, rises or stays, by the intervals; linear by what the delay adds at each count."""
    if found is None or not found.compared:
        return _foretold(evidence, found)
    ranks, without, late, _ = found.compared[-1]
    numbers = (
        f"on {ranks} ranks the speedup is {number_phrase(without)} without and {number_phrase(late)} with the delay"
    )
    if late.high < without.low:
        verdict = f"It makes scaling worse: {numbers}. The delay is paid by every rank, and no rank can take it over."
    elif late.low > without.high:
        verdict = (
            f"The speedup rises, and nothing is gained: {numbers}. Both steps grow by the same time, which draws their "
            "ratio towards 1; every step is slower than before."
        )
    else:
        verdict = f"No difference that shows: {numbers}, and the intervals overlap."
    text = f"{verdict} {_linear_words(found)}"
    condition = "interval of the speedup with the delay below, above or across the one without"
    return Answer(ROW, EFFECT, text, condition, (TABLE,))


def _foretold(evidence: Evidence, found: Delay | None) -> Answer:
    """What one rank alone lets expect: the delay bounds every speedup."""
    one = (
        next((row.plain for row in found.rows if row.ranks == 1 and row.plain and scales(row.plain)), None)
        if found
        else None
    )
    if (
        found is None
        or found.serial_seconds is None
        or found.serial_seconds.low <= 0
        or not one
        or not one.step_seconds
    ):
        return unanswered(ROW, EFFECT, _hole(evidence))
    bound = propagate(lambda step, late: (step + late) / late, one.step_seconds, found.serial_seconds)
    text = (
        f"Not measured: {_hole(evidence)}. Predicted from one rank: the delay adds "
        f"{seconds_phrase(found.serial_seconds)} to {seconds_phrase(one.step_seconds)}, all of it serial, so by "
        f"Amdahl's law no number of ranks could be more than {number_phrase(bound)} times faster: time is linear in "
        "the delay, the bound on speedup is not."
    )
    return Answer(ROW, EFFECT, text, "no measured speedup; (T1 + d) / d from one rank", (TABLE,))


def _linear_words(found: Delay) -> str:
    rows = [row for row in found.rows if row.growth_seconds and row.plain and scales(row.plain)]
    said = listed([f"{seconds_phrase(row.growth_seconds)} on {row.ranks}" for row in rows if row.growth_seconds])
    asked = seconds_text(found.asked_seconds)
    inside = [
        row.growth_seconds.low <= found.asked_seconds * 1.1 and row.growth_seconds.high >= found.asked_seconds * 0.9
        for row in rows
        if row.growth_seconds
    ]
    numbers = f"The step grows by {said} rank{'s' if rows and rows[-1].ranks > 1 else ''} for {asked} asked"
    if any(_vague(row.growth_seconds, found.asked_seconds) for row in rows):
        return f"{numbers}; intervals that wide cannot tell whether that is the delay itself."
    if all(inside):
        return f"{numbers}: the delay itself, within the intervals. Time is linear in the delay, speedup is not."
    return f"{numbers}: not the delay itself, since part of it is hidden behind waiting or stretched by the system."


def _vague(growth: Estimate | None, asked: float) -> bool:
    """Whether the growth is known to less than half of the delay."""
    return growth is not None and (growth.high - growth.low) / 2 > VAGUE_GROWTH * asked


def amdahl_answer(evidence: Evidence, found: Delay | None) -> Answer:
    """Confirmed where prediction and measurement overlap at every count, and both are narrow enough to disagree."""
    if found is None or not found.compared or found.serial_seconds is None:
        return unanswered(ROW, AMDAHL, _hole(evidence))
    said = [
        f"{number_phrase(predicted)} predicted and {number_phrase(late)} measured on {ranks} ranks"
        for ranks, _, late, predicted in found.compared
    ]
    meet = all(p.low <= late.high and late.low <= p.high for _, _, late, p in found.compared)
    fraction = found.serial_fraction
    law = f"The delay adds {seconds_phrase(found.serial_seconds)} to one rank's step, all of it serial."
    if fraction is not None:
        law += (
            f" With Karp and Flatt's fraction of the plain step the serial fraction becomes {number_phrase(fraction)}"
        )
        law += f"{_limit_words(fraction)}."
    widest = max(one.half_width for _, _, late, p in found.compared for one in (late, p))
    reach = f"widest of them +-{percent_text(widest)}, at most {percent_text(VAGUE)} to be a test"
    if not meet:
        verdict = "The law misses: the delay does not only add serial time, it also changes what ranks wait for."
        condition = "intervals of predicted and measured speedup do not overlap at every count"
    elif widest > VAGUE:
        verdict = "The intervals overlap but are too wide to test the law: it can be neither confirmed nor refuted."
        condition = f"intervals of predicted and measured speedup overlap at every count; {reach}"
    else:
        verdict = "The law holds within the intervals."
        condition = f"intervals of predicted and measured speedup overlap at every count; {reach}"
    return Answer(ROW, AMDAHL, f"{law} Speedup: {listed(said)}. {verdict}", condition, (TABLE,))


def _limit_words(fraction: Estimate) -> str:
    if fraction.value > 1:
        return ", above 1: ranks add work, which the law does not know, so it has no limit to offer"
    return f", a limit of {1 / fraction.value:.2f} for any number of ranks" if fraction.value > 0 else ""


def _hole(evidence: Evidence) -> str:
    rows = evidence.rows(EXPERIMENT)
    few = few_gpus(evidence, EXPERIMENT)
    if few:
        return few
    for value in (0, 0.01):
        hole = not_scaling(evidence.rows(EXPERIMENT, delay=value), f"{EXPERIMENT} {value:g} s") if rows else ""
        if hole:
            return hole
    return f"the experiment {EXPERIMENT} was not run" if not rows else "runs with and without the delay are needed"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """Both questions of H1.5A; asked as one where there is no speedup to speak of."""
    found = delay(evidence)
    if found is None or not found.compared:
        return (replace(effect_answer(evidence, found), question=f"{EFFECT} {AMDAHL}"),)
    return effect_answer(evidence, found), amdahl_answer(evidence, found)
