"""H1.5A: a delay on every rank: its effect on the step and on the speedup, and its relation to Amdahl's law."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import Line, fit_line, spread_of
from scalewise.analysis.ratio import equivalent, ratio_of
from scalewise.analysis.scaling import serial_fraction
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework import Question
from scalewise.course.homework1.comparable_rows import (
    EQUAL,
    FIGURE_WIDTH,
    MARGIN,
    again,
    doubt_of,
    measured_there,
    scaling_rows,
    shaken_by,
    unanswered,
    why_no_scaling,
)
from scalewise.course.homework1.rank_points import predicted_ranks
from scalewise.course.measured_arms import COURSE_LEVEL, refusals, step_ratio
from scalewise.course.page_pieces import estimates_series, setting
from scalewise.report.cells import estimate_cell, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Figure, LinePlot, Mark, PlotSeries, Section, Table
from scalewise.units import listed, ranks_phrase

ORDER, EXPERIMENT = 50, "delay"
TABLE, SPEEDUP, STEPS = "h1-5a-delay", "h1-5a-speedup", "h1-5a-steps"
NEEDED = "Runs with and without a delay are needed, on one rank and on several."
EFFECT = Question(
    "H1.5A", "What does the delay do to scaling?", "the speedups without a delay and with the longest one"
)
LINEAR = Question(
    "H1.5A",
    "Is the effect linear or non-linear?",
    "by how much a step grows with each millisecond, and the shape of the speedup's curve",
)
AMDAHL = Question(
    "H1.5A",
    "How does it relate to Amdahl's law?",
    "the delay's share of one rank's step, which no number of ranks divides, and the measured speedups",
)
NOT_SHARED = "Each rank sleeps the whole delay, and no other rank can take over a part of it."
REMOVE_IT = (
    "So work that every rank repeats, such as logging, checks or loading, is worth removing before ranks are added."
)
HYPERBOLA = (
    "The delay d stands in numerator and denominator of (T(1) + d) / (T(N) + d): a hyperbola, which is steepest at "
    "small delays and then approaches 1."
)
SERIAL = (
    "The delay joins the serial part of the step. The longer it is, the larger the serial share s, and no number of "
    "ranks can be more than 1/s times as fast."
)
SLOWER = (
    "Without a delay several ranks are already slower than one: they add communication, for which the law has no term, "
    "so there is no serial share of T(1) to start from."
)
CURVE = 40  # points of the drawn law


@dataclass(frozen=True)
class Delayed:
    """One delay: the steps of one rank and of several, with the measured speedup and that by the law."""

    seconds: float
    one: Estimate | None
    many: Estimate | None
    mark: Mark  # of the several: measured or predicted
    measured: Estimate | None  # speedup
    law: Estimate | None  # (T1 + d) / (TN + d) from the steps without delay
    serial: float | None  # share of one rank's step that is serial, by the law
    share: Estimate | None  # of one rank's step that is this delay: what no number of ranks divides
    doubt: str = ""

    @property
    def delay_cell(self) -> Cell:
        """The delay in milliseconds."""
        return text_cell(f"{1e3 * self.seconds:g}")

    @property
    def one_cell(self) -> Cell:
        """The step of one rank in milliseconds."""
        return estimate_cell(self.one, 1e3, why_empty="not measured")

    @property
    def measured_cell(self) -> Cell:
        """The measured speedup."""
        return estimate_cell(self.measured, why_empty="not measured")

    @property
    def law_cell(self) -> Cell:
        """The speedup by the law."""
        return estimate_cell(self.law, why_empty="two steps without a delay are needed")

    @property
    def share_cell(self) -> Cell:
        """The delay's share of one rank's step, in percent."""
        return estimate_cell(self.share, 100, why_empty="no delay")

    @property
    def most_cell(self) -> Cell:
        """The speedup that no number of ranks can exceed, since none of them divides the delay."""
        most = self.share.through(lambda share: 1 / share, positive=True) if self.share is not None else None
        return estimate_cell(most, why_empty="no delay")

    @property
    def serial_cell(self) -> Cell:
        """The serial share of one rank's step, in percent."""
        return number_cell(self.serial, 100, why_empty="the law has none here")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells in the order of the columns."""
        many = estimate_cell(self.many, 1e3, mark=self.mark, why_empty="not measured")
        steps = (self.delay_cell, self.one_cell, replace(many, doubt=self.doubt))
        return (*steps, self.measured_cell, self.law_cell, self.share_cell, self.most_cell, self.serial_cell)


@dataclass(frozen=True)
class Delays:
    """The data for H1.5A."""

    ranks: int  # of the several
    mark: Mark  # of the several: measured or predicted
    rows: tuple[Delayed, ...]
    missing_reason: str
    machine: str = ""  # where every row was measured, if not here

    @property
    def steps(self) -> tuple[tuple[str, list[tuple[float, Estimate]]], ...]:
        """The steps over the delay in seconds: of one rank, and of several."""
        one = [(row.seconds, row.one) for row in self.rows if row.one is not None]
        many = [(row.seconds, row.many) for row in self.rows if row.many is not None]
        return ("1 rank", one), (ranks_phrase(self.ranks), many)

    @property
    def lines(self) -> tuple[Line | None, ...]:
        """The lines through both."""
        return tuple(_line(steps) for _, steps in self.steps)


def build(evidence: Evidence) -> Section:
    """Builds the section: table, speedup and step over the delay, answers."""
    found = delays(evidence)
    figures = (_speedup_figure(found), _steps_figure(found))
    blocks: list[Block] = [_table(evidence, found), *(one for one in figures if one is not None)]
    answers = _effect(evidence, found), _linear(evidence, found), _amdahl(evidence, found)
    return Section("h1-5a", "A delay on every rank", (*blocks, *answers))


def delays(evidence: Evidence) -> Delays:
    """Returns the delays on the most measured ranks; else on one rank, with H1.2's prediction for several."""
    rows = scaling_rows(evidence, EXPERIMENT)
    ranks = max((row.ranks for row in rows), default=1)
    there = measured_there(evidence, EXPERIMENT, 4, delay=0) or measured_there(evidence, EXPERIMENT, 2, delay=0)
    if ranks == 1 and there is not None:
        return replace(delays(replace(there.evidence, elsewhere=())), machine=there.machine)
    steps = {(float(row.axes["delay"]), row.ranks): row for row in rows if "delay" in row.axes}
    mark: Mark = "measured"
    plain_one, plain_many = (_step(evidence, steps.get((0.0, count))) for count in (1, ranks))
    faster = step_ratio(evidence, steps.get((0.0, 1)), steps.get((0.0, ranks)))
    if ranks == 1:
        several = predicted_ranks(evidence, "strong-scaling").rows
        ranks, mark = (several[-1].ranks, "predicted") if several else (1, "missing")
        plain_many = several[-1].step if several else None
        faster = ratio_of(plain_one, plain_many) if plain_one is not None and plain_many is not None else None
    made = []
    for delay in sorted({delay for delay, _ in steps}):
        one, many = steps.get((delay, 1)), steps.get((delay, ranks)) if ranks > 1 else None
        made.append(
            Delayed(
                seconds=delay,
                one=_step(evidence, one),
                many=plain_many if mark == "predicted" and not delay else _step(evidence, many),
                mark=mark,
                measured=step_ratio(evidence, one, many) if mark == "measured" and ranks > 1 else None,
                law=_law(faster, plain_many, delay),
                serial=_serial(plain_one, plain_many, ranks, delay),
                share=_share(_step(evidence, one), delay),
                doubt=doubt_of(evidence, many) or doubt_of(evidence, one),
            )
        )
    return Delays(ranks, mark, tuple(made), why_no_scaling(evidence, EXPERIMENT))


def _step(evidence: Evidence, row: ArmRow | None) -> Estimate | None:
    step = row.step_seconds if row is not None else None
    return again(evidence).widened(step.at(COURSE_LEVEL)) if step is not None else None


def _law(faster: Estimate | None, many: Estimate | None, delay: float) -> Estimate | None:
    """Returns the speedup by Amdahl's law with the delay in the serial part, from T1 / TN and TN.

    s' = (s T1 + d) / (T1 + d) gives (T1 + d) / (TN + d). The runs of the ratio T1 / TN were made in turns.
    """
    if faster is None or many is None:
        return None
    found = propagate(lambda ratio, tn: (ratio * tn + delay) / (tn + delay), faster, many)
    return replace(found, method="Amdahl's law with the delay serial", positive=found.low > 0)


def _serial(one: Estimate | None, many: Estimate | None, ranks: int, delay: float) -> float | None:
    """Returns the serial share; None if the law has none, for ranks slower than one or faster than ideal."""
    if one is None or many is None or ranks < 2:
        return None
    share = serial_fraction(ratio_of(one, many), ranks).value
    return (share * one.value + delay) / (one.value + delay) if 0 <= share <= 1 else None


def _share(one: Estimate | None, delay: float) -> Estimate | None:
    """The delay over the step of one rank that holds it."""
    if one is None or not delay or one.value <= delay:
        return None
    share = one.through(lambda step: min(1.0, delay / step))
    return replace(share, method="delay over the step of one rank", positive=True)


def _line(steps: Sequence[tuple[float, Estimate]]) -> Line | None:
    if len(steps) < 3:
        return None
    return fit_line([delay for delay, _ in steps], [step.value for _, step in steps], spread_of([s for _, s in steps]))


def _table(evidence: Evidence, found: Delays) -> Table:
    many = ranks_phrase(found.ranks) if found.ranks > 1 else "several ranks"
    columns = (
        Column("Delay", "ms"),
        Column("Step of 1 rank", "ms"),
        Column(f"Step of {many}", "ms"),
        Column("Speedup measured"),
        Column("(T(1) + d) / (T(N) + d)"),
        Column("d / T(1)", "%"),
        Column("Most, by Amdahl's law"),
        Column("Serial share of the step", "%"),
    )
    shown = len(columns) if any(one.serial is not None for one in found.rows) else len(columns) - 1
    caption = f"{setting(evidence, EXPERIMENT, but=('ranks',))} {EQUAL}"
    told = [
        f"{said_with_interval(estimate_cell(line.slope), 'ms')} on {words}"
        for line, words in zip(found.lines, ("1 rank", many), strict=True)
        if line is not None
    ]
    if told:
        caption += f" A line through the steps: each ms of delay adds {listed(told)}."
    notes = [
        "(T(1) + d) / (T(N) + d): from the steps without a delay, as if d were only added. d / T(1): the delay's share "
        "of one rank's step with it. Most: 1 over that share, which no number of ranks can exceed."
    ]
    notes += [f"Every row of this table was measured on {found.machine}."] if found.machine else []
    if found.mark == "predicted":
        notes.append(
            f"The step of {many} without a delay is the predicted one of H1.2; with a delay nothing was measured on "
            "several."
        )
    return Table(
        TABLE,
        "A delay before backward, on every rank",
        columns[:shown],
        tuple(one.cells[:shown] for one in found.rows),
        (*(notes if found.rows else ["No run with a delay can be used."]), *refusals(evidence, EXPERIMENT)),
        caption=caption,
    )


def _speedup_figure(found: Delays) -> Figure | None:
    plain = next((row for row in found.rows if row.seconds == 0), None)
    if plain is None or plain.one is None or plain.law is None or len(found.rows) < 2:
        return None
    end = found.rows[-1].seconds
    one, many = plain.one.value, plain.one.value / plain.law.value
    delays = tuple(end * index / CURVE for index in range(CURVE + 1))
    curve = tuple((one + delay) / (many + delay) for delay in delays)
    known = [(1e3 * row.seconds, row.measured) for row in found.rows if row.measured is not None]
    series = (
        PlotSeries("as one rank", (0.0, 1e3 * end), (1.0, 1.0), style="ideal"),
        *([estimates_series("measured", known)] if known else []),
        PlotSeries("d added", tuple(1e3 * delay for delay in delays), curve, style="model"),
    )
    caption = "d added: (T(1) + d) / (T(N) + d) from the steps without a delay d. Grey: as fast as one rank."
    plot = LinePlot("delay (ms)", "speedup", series)
    return Figure(SPEEDUP, f"Speedup of {ranks_phrase(found.ranks)} over the delay", caption, plot, FIGURE_WIDTH)


def _steps_figure(found: Delays) -> Figure | None:
    series = tuple(
        estimates_series(name, [(1e3 * delay, step) for delay, step in steps], 1e3)
        for name, steps in found.steps
        if len(steps) > 1
    )
    if not series:
        return None
    plot = LinePlot("delay (ms)", "step time (ms)", series)
    return Figure(STEPS, "Step time over the delay", "Lines at the points: 95 % intervals.", plot, FIGURE_WIDTH)


def _effect(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer, by the interval of the ratio of the speedups with the longest delay and with none."""
    known = [row for row in found.rows if row.measured is not None]
    if len(known) < 2 or known[0].measured is None or known[-1].measured is None:
        return _effect_predicted(evidence, found)
    first, last = known[0], known[-1]
    change = ratio_of(known[-1].measured, known[0].measured)
    if change.high < 1:
        verdict, practice = "It makes scaling worse: the speedup falls towards 1.", REMOVE_IT
    elif change.low > 1:
        verdict = "The speedup rises towards 1, and nothing is gained: every step is longer than before."
        practice = "A ratio that improves because both sides became slower is no better scaling: look at the times."
    else:
        verdict = "It pulls the speedup towards 1; how far cannot be told from these runs."
        practice = "Every step is longer, so nothing is gained, whatever the ratio does."
    return EFFECT.answer(
        verdict,
        f"On {ranks_phrase(found.ranks)} it is {said(first.measured_cell)} without a delay and "
        f"{said_with_interval(last.measured_cell)} with {said(last.delay_cell, 'ms')}.",
        NOT_SHARED,
        practice,
        decided="The interval of the ratio of both speedups, below, above or across 1 "
        f"(here {change.low:.3g} to {change.high:.3g}).",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _effect_predicted(evidence: Evidence, found: Delays) -> Answer:
    law = [row for row in found.rows if row.law is not None]
    if len(law) < 2:
        return unanswered(EFFECT, found.missing_reason or NEEDED, TABLE)
    number = (
        f"The speedup of {ranks_phrase(found.ranks)} would be {said(law[0].law_cell)} without a delay and "
        f"{said(law[-1].law_cell)} with {said(law[-1].delay_cell, 'ms')} (predicted)."
    )
    return EFFECT.answer(
        "By prediction it pulls the speedup towards 1.",
        f"{found.missing_reason} {number}".strip(),
        NOT_SHARED,
        REMOVE_IT,
        decided="Amdahl's law from one measured rank and the predicted step of several; nothing else is compared.",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _linear(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer: linear in time if each ms adds one ms within the margin; hyperbolic in the speedup."""
    named = [
        (estimate_cell(line.slope), words, line)
        for line, words in zip(found.lines, ("one rank", ranks_phrase(found.ranks)), strict=True)
        if line is not None
    ]
    if not named:
        return replace(unanswered(LINEAR, found.missing_reason or NEEDED, TABLE), why=HYPERBOLA)
    one_each = [equivalent(line.slope.at(COURSE_LEVEL), MARGIN) for _, _, line in named]
    told = listed([f"{said(cell, 'ms')} on {words}" for cell, words, _ in named])
    if any(line.slope.low <= 0 for _, _, line in named):
        verdict = (
            "Linear in the step time and non-linear in the speedup, by the law; these runs are too noisy to show it."
        )
        told = listed([f"{said_with_interval(cell, 'ms')} on {words}" for cell, words, _ in named])
    elif all(word == "equal within margin" for word in one_each):
        verdict = "Linear in the step time, non-linear in the speedup."
    elif "different" in one_each:
        verdict = (
            "Linear in the step time, though a millisecond of delay does not add exactly one; non-linear in the "
            "speedup."
        )
    else:
        verdict = "Linear in the step time as far as can be told, non-linear in the speedup."
    return LINEAR.answer(
        verdict,
        f"Each ms of delay adds {told}.",
        HYPERBOLA,
        "The first milliseconds of a delay change the speedup most.",
        decided="The slope of a line through the steps: one for one where its whole interval lies within "
        f"{MARGIN:.0%} of 1.",
        rests_on=(TABLE, STEPS, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _amdahl(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer: the law follows from the steps without delay alone, and is tested on every other delay."""
    tested = [row for row in found.rows if row.seconds > 0 and row.law is not None and row.measured is not None]
    shares = [row for row in found.rows if row.serial is not None]
    if not tested:
        return _amdahl_predicted(evidence, found, shares)
    last = tested[-1]
    if last.share is None:
        return unanswered(AMDAHL, found.missing_reason or NEEDED, TABLE)
    practice = ""
    if shares:
        first, end = (said(row.serial_cell, "%") for row in (shares[0], shares[-1]))
        practice = f"The serial share of the step grows from {first} to {end}."
    return AMDAHL.answer(
        "The delay is a serial part, which bounds the speedup of any number of ranks.",
        f"With {said(last.delay_cell, 'ms')} it is {said(last.share_cell, '%')} of one rank's step, so no number of "
        f"ranks can be more than {said(last.most_cell)} times as fast.",
        f"{_met(tested)} {SERIAL if shares else SLOWER}",
        practice,
        decided="Measured speedup over (T(1) + d) / (T(N) + d) at each delay: met where the interval of the ratio "
        f"lies within {MARGIN:.0%} of 1, missed where it excludes 1.",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _met(tested: Sequence[Delayed]) -> str:
    """The verdict on whether the delay does no more than add to both steps."""
    words = [equivalent(ratio_of(row.measured, row.law), MARGIN) for row in tested if row.measured and row.law]
    last = tested[-1]
    where = (
        f"With {said(last.delay_cell, 'ms')}, {said(last.law_cell)} is expected and "
        f"{said_with_interval(last.measured_cell)} was measured"
    )
    if all(word == "equal within margin" for word in words):
        return f"{where}: the delay only adds to both steps, within 10 % at all {len(tested)} delays."
    missed = [said(row.delay_cell, "ms") for row, word in zip(tested, words, strict=True) if word == "different"]
    if missed:
        return f"{where}; at {listed(missed)} the measured speedup differs from that of a delay that only adds."
    return f"{where}: nothing speaks against a delay that only adds to both steps, but the runs do not confirm it."


def _amdahl_predicted(evidence: Evidence, found: Delays, shares: Sequence[Delayed]) -> Answer:
    """Returns the answer from one rank alone, for which the law bounds every speedup."""
    if shares:
        first, last = shares[0], shares[-1]
        number = (
            f"{found.missing_reason} By the law the serial share of the step grows from "
            f"{said(first.serial_cell, '%')} without a delay to {said(last.serial_cell, '%')} with "
            f"{said(last.delay_cell, 'ms')}."
        )
        return AMDAHL.answer(
            "By the law the delay makes the serial share larger, and the speedup tends to 1.",
            number.strip(),
            SERIAL,
            decided="The law from one measured rank and the predicted step of several; it could not be tested.",
            rests_on=(TABLE, SPEEDUP),
            shaken_by=shaken_by(evidence, EXPERIMENT),
        )
    longest = found.rows[-1] if found.rows else None
    if longest is None or longest.one is None or longest.seconds <= 0:
        return unanswered(AMDAHL, found.missing_reason or NEEDED, TABLE)
    return AMDAHL.answer(
        "The delay is serial, so it alone bounds the speedup, whatever the number of ranks.",
        f"{found.missing_reason} On one rank a step of {said(longest.one_cell, 'ms')} holds a delay of "
        f"{said(longest.delay_cell, 'ms')}.",
        SERIAL,
        rests_on=(TABLE,),
        decided=f"(T1 + d) / d from one rank: {longest.one.value / longest.seconds:.2f}.",
    )
