"""H1.5A: a delay on every rank: its effect on the step and on the speedup, and its relation to Amdahl's law."""

from dataclasses import replace

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import equivalent, ratio_of
from scalewise.course.captions import setting
from scalewise.course.homework1.comparable_rows import (
    EQUAL,
    FIGURE_WIDTH,
    MARGIN,
)
from scalewise.course.homework1.doubts import shaken_by
from scalewise.course.homework1.h1_5a_delays import EXPERIMENT, Delayed, Delays, delays, row_cells
from scalewise.course.seen import refusals
from scalewise.course.selected_arms import COURSE_LEVEL
from scalewise.report.cells import said, said_with_interval
from scalewise.report.document import Answer, Block, Column, Figure, LinePlot, PlotSeries, Section, Table
from scalewise.units import listed, ranks_phrase

ORDER, ROW = 50, "H1.5A"
TABLE, SPEEDUP, STEPS = "h1-5a-delay", "h1-5a-speedup", "h1-5a-steps"
EFFECT = "What does the delay do to scaling?"
LINEAR = "Is the effect linear or non-linear?"
AMDAHL = "How does it relate to Amdahl's law?"
HINTS = {
    EFFECT: "the speedups without a delay and with the longest one",
    LINEAR: "by how much a step grows with each millisecond, and the shape of the speedup's curve",
    AMDAHL: "the delay's share of one rank's step, which no number of ranks divides, and the measured speedups",
}
HYPERBOLA = (
    "The delay d stands in numerator and denominator of (T(1) + d) / (T(N) + d): a hyperbola, which is steepest at "
    "small delays and then approaches 1."
)
SLOWER = (
    "Without a delay several ranks are already slower than one: they add communication, for which the law has no term, "
    "so there is no serial share of T(1) to start from."
)
CURVE = 40  # points of the drawn law


def build(evidence: Evidence) -> Section:
    """Builds the section: table, speedup and step over the delay, answers."""
    found = delays(evidence)
    figures = (_speedup_figure(found), _steps_figure(found))
    blocks: list[Block] = [_table(evidence, found), *(one for one in figures if one is not None)]
    answers = _effect(evidence, found), _linear(evidence, found), _amdahl(evidence, found)
    return Section("h1-5a", "A delay on every rank", (*blocks, *answers))


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
    rows = tuple(row_cells(found, one)[:shown] for one in found.rows)
    slopes = found.slopes
    caption = f"{setting(evidence, EXPERIMENT, but=('ranks',))} {EQUAL}"
    told = [
        f"{said_with_interval(cell, 'ms')} on {words}"
        for cell, words in zip(slopes, ("1 rank", many), strict=True)
        if cell.number is not None
    ]
    if told:
        caption += f" A line through the steps: each ms of delay adds {listed(told)}."
    notes = [
        "(T(1) + d) / (T(N) + d): from the steps without a delay, as if d were only added. d / T(1): the delay's share "
        "of one rank's step with it. Most: 1 over that share, which no number of ranks can exceed."
    ]
    if found.machine:
        notes.append(f"Every row of this table was measured on {found.machine}.")
    if found.mark == "predicted":
        notes.append(
            f"The step of {many} without a delay is the predicted one of H1.2; with a delay nothing was measured on "
            "several."
        )
    if not rows:
        notes = ["No run with a delay can be used."]
    return Table(
        TABLE,
        "A delay before backward, on every rank",
        columns[:shown],
        rows,
        (*notes, *refusals(evidence, EXPERIMENT)),
        caption=caption,
    )


def _speedup_figure(found: Delays) -> Figure | None:
    plain = next((row for row in found.rows if row.seconds == 0 and row.law), None)
    if plain is None or len(found.rows) < 2:
        return None
    end = found.rows[-1].seconds
    one, many = _without(found)
    if one is None or many is None:
        return None
    delays = tuple(end * index / CURVE for index in range(CURVE + 1))
    curve = tuple((one + delay) / (many + delay) for delay in delays)
    series = [PlotSeries("d added", tuple(1e3 * delay for delay in delays), curve, style="model")]
    known = [(row.seconds, row.measured) for row in found.rows if row.measured is not None]
    if known:
        series.insert(
            0,
            PlotSeries(
                "measured",
                tuple(1e3 * delay for delay, _ in known),
                tuple(value.value for _, value in known),
                tuple(value.low for _, value in known),
                tuple(value.high for _, value in known),
            ),
        )
    level = PlotSeries("as one rank", (0.0, 1e3 * end), (1.0, 1.0), style="ideal")
    plot = LinePlot("delay (ms)", "speedup", (level, *series))
    caption = "d added: (T(1) + d) / (T(N) + d) from the steps without a delay d. Grey: as fast as one rank."
    return Figure(SPEEDUP, f"Speedup of {ranks_phrase(found.ranks)} over the delay", caption, plot, FIGURE_WIDTH)


def _without(found: Delays) -> tuple[float | None, float | None]:
    """Returns the seconds of both steps without a delay, which determine the law's curve."""
    row = next((row for row in found.rows if row.seconds == 0), None)
    if row is None or row.one is None or row.law is None:
        return None, None
    return row.one.value, row.one.value / row.law.value


def _steps_figure(found: Delays) -> Figure | None:
    series = []
    for name, several in (("1 rank", False), (ranks_phrase(found.ranks), True)):
        known = [(row.seconds, step) for row in found.rows if (step := row.many if several else row.one) is not None]
        if len(known) > 1:
            series.append(
                PlotSeries(
                    name,
                    tuple(1e3 * delay for delay, _ in known),
                    tuple(1e3 * step.value for _, step in known),
                    tuple(1e3 * step.low for _, step in known),
                    tuple(1e3 * step.high for _, step in known),
                )
            )
    if not series:
        return None
    caption = "Lines at the points: 95 % intervals."
    return Figure(
        STEPS,
        "Step time over the delay",
        caption,
        LinePlot("delay (ms)", "step time (ms)", tuple(series)),
        FIGURE_WIDTH,
    )


def _effect(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer, by the interval of the ratio of the speedups with the longest delay and with none."""
    known = [row for row in found.rows if row.measured is not None]
    if len(known) < 2 or known[0].measured is None or known[-1].measured is None:
        return _effect_predicted(evidence, found)
    first, last = known[0].measured, known[-1].measured
    change = ratio_of(last, first)
    start, end = row_cells(found, known[0])[3], row_cells(found, known[-1])[3]
    delay = said(row_cells(found, known[-1])[0], "ms")
    number = (
        f"On {ranks_phrase(found.ranks)} it is {said(start)} without a delay and {said_with_interval(end)} with "
        f"{delay}."
    )
    if change.high < 1:
        verdict = "It makes scaling worse: the speedup falls towards 1."
        practice = (
            "So work that every rank repeats, such as logging, checks or loading, is worth removing before ranks are "
            "added."
        )
    elif change.low > 1:
        verdict = "The speedup rises towards 1, and nothing is gained: every step is longer than before."
        practice = "A ratio that improves because both sides became slower is no better scaling: look at the times."
    else:
        verdict = "It pulls the speedup towards 1; how far cannot be told from these runs."
        practice = "Every step is longer, so nothing is gained, whatever the ratio does."
    return Answer(
        ROW,
        EFFECT,
        verdict,
        number,
        "Each rank sleeps the whole delay, and no other rank can take over a part of it.",
        practice,
        decided="The interval of the ratio of both speedups, below, above or across 1 "
        f"(here {change.low:.3g} to {change.high:.3g}).",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[EFFECT],
    )


def _effect_predicted(evidence: Evidence, found: Delays) -> Answer:
    law = [row for row in found.rows if row.law is not None]
    if len(law) < 2:
        return _unanswered(EFFECT, found)
    start, end = row_cells(found, law[0])[4], row_cells(found, law[-1])[4]
    delay = said(row_cells(found, law[-1])[0], "ms")
    number = (
        f"The speedup of {ranks_phrase(found.ranks)} would be {said(start)} without a delay and {said(end)} with "
        f"{delay} (predicted)."
    )
    return Answer(
        ROW,
        EFFECT,
        "By prediction it pulls the speedup towards 1.",
        f"{found.hole} {number}".strip(),
        "Each rank sleeps the whole delay, and no other rank can take over a part of it.",
        "So work that every rank repeats, such as logging, checks or loading, is worth removing before ranks are "
        "added.",
        decided="Amdahl's law from one measured rank and the predicted step of several; nothing else is compared.",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[EFFECT],
    )


def _linear(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer: linear in time if each ms adds one ms within the margin; hyperbolic in the speedup."""
    named = [(cell, words, line) for cell, words, line in zip(
        found.slopes, ("one rank", ranks_phrase(found.ranks)), (found.one_line, found.many_line), strict=True
    ) if line is not None]  # fmt: skip
    if not named:
        return replace(_unanswered(LINEAR, found), why=HYPERBOLA)
    one_each = [equivalent(line.slope.at(COURSE_LEVEL), MARGIN) for _, _, line in named]
    told = listed([f"{said(cell, 'ms')} on {words}" for cell, words, _ in named])
    flat = [line.slope.low <= 0 for _, _, line in named]
    if any(flat):
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
    return Answer(
        ROW,
        LINEAR,
        verdict,
        f"Each ms of delay adds {told}.",
        HYPERBOLA,
        "The first milliseconds of a delay change the speedup most.",
        decided="The slope of a line through the steps: one for one where its whole interval lies within "
        f"{MARGIN:.0%} of 1.",
        rests_on=(TABLE, STEPS, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[LINEAR],
    )


def _amdahl(evidence: Evidence, found: Delays) -> Answer:
    """Returns the answer: the law follows from the steps without delay alone, and is tested on every other delay."""
    tested = [row for row in found.rows if row.seconds > 0 and row.law is not None and row.measured is not None]
    shares = [row for row in found.rows if row.serial is not None]
    why = (
        "The delay joins the serial part of the step. The longer it is, the larger the serial share s, and no "
        "number of "
        "ranks can be more than 1/s times as fast."
    )
    if not tested:
        return _amdahl_predicted(evidence, found, shares, why)
    last = row_cells(found, tested[-1])
    delay = said(last[0], "ms")
    if last[5].number is None:
        return _unanswered(AMDAHL, found)
    number = (
        f"With {delay} it is {said(last[5], '%')} of one rank's step, so no number of ranks can be more than "
        f"{said(last[6])} times as fast."
    )
    met, decided = _met(found, tested)
    practice = (
        f"The serial share of the step grows from {said(row_cells(found, shares[0])[7], '%')} to "
        f"{said(row_cells(found, shares[-1])[7], '%')}."
        if shares
        else ""
    )
    return Answer(
        ROW,
        AMDAHL,
        "The delay is a serial part, which bounds the speedup of any number of ranks.",
        number,
        f"{met} {why}" if shares else f"{met} {SLOWER}",
        practice,
        decided=decided,
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[AMDAHL],
    )


def _met(found: Delays, tested: list[Delayed]) -> tuple[str, str]:
    """The verdict on whether the delay does no more than add to both steps, and how that was decided."""
    words = [equivalent(ratio_of(row.measured, row.law), MARGIN) for row in tested if row.measured and row.law]
    last = row_cells(found, tested[-1])
    where = f"With {said(last[0], 'ms')}, {said(last[4])} is expected and {said_with_interval(last[3])} was measured"
    if all(word == "equal within margin" for word in words):
        told = f"{where}: the delay only adds to both steps, within 10 % at all {len(tested)} delays."
    elif "different" in words:
        missed = [
            said(row_cells(found, row)[0], "ms") for row, word in zip(tested, words, strict=True) if word == "different"
        ]
        told = f"{where}; at {listed(missed)} the measured speedup differs from that of a delay that only adds."
    else:
        told = f"{where}: nothing speaks against a delay that only adds to both steps, but the runs do not confirm it."
    return told, (
        "Measured speedup over (T(1) + d) / (T(N) + d) at each delay: met where the interval of the ratio lies within "
        f"{MARGIN:.0%} of 1, missed where it excludes 1."
    )


def _amdahl_predicted(evidence: Evidence, found: Delays, shares: list[Delayed], why: str) -> Answer:
    """Returns the answer from one rank alone, for which the law bounds every speedup."""
    if not shares:
        bound = _bound(found)
        if bound is None:
            return _unanswered(AMDAHL, found)
        number = (
            f"{found.hole} On one rank a step of {said(row_cells(found, found.rows[-1])[1], 'ms')} holds a delay of "
            f"{said(row_cells(found, found.rows[-1])[0], 'ms')}."
        )
        verdict = "The delay is serial, so it alone bounds the speedup, whatever the number of ranks."
        return Answer(ROW, AMDAHL, verdict, number, why, rests_on=(TABLE,), hint=HINTS[AMDAHL],
                      decided=f"(T1 + d) / d from one rank: {bound:.2f}.")  # fmt: skip
    first, last = row_cells(found, shares[0]), row_cells(found, shares[-1])
    number = (
        f"{found.hole} By the law the serial share of the step grows from {said(first[7], '%')} without a delay to "
        f"{said(last[7], '%')} with {said(last[0], 'ms')}."
    )
    return Answer(
        ROW,
        AMDAHL,
        "By the law the delay makes the serial share larger, and the speedup tends to 1.",
        number.strip(),
        why,
        decided="The law from one measured rank and the predicted step of several; it could not be tested.",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[AMDAHL],
    )


def _bound(found: Delays) -> float | None:
    last = found.rows[-1] if found.rows else None
    if last is None or last.one is None or last.seconds <= 0:
        return None
    return last.one.value / last.seconds


def _unanswered(question: str, found: Delays) -> Answer:
    why = found.hole or "Runs with and without a delay are needed, on one rank and on several."
    return Answer(
        ROW, question, "This cannot be answered from these runs.", why, rests_on=(TABLE,), hint=HINTS[question]
    )
