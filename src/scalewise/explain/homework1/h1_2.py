"""H1.2: is strong scaling linear, where does efficiency drop, and which parts of a step explain it."""

from dataclasses import dataclass
from statistics import median

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.laws import AmdahlFit, RankSpeedup, fit_amdahl
from scalewise.analysis.link_fit import NoLinkFit
from scalewise.analysis.propagate import exact, propagate
from scalewise.analysis.step_model import ComputeLine, StepParts, step_parts
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.foretold import Foretelling, foretelling
from scalewise.explain.homework1.foretold_words import predicted_answer
from scalewise.explain.homework1.pieces import (
    REMOVED,
    compute_line,
    few_gpus,
    link_at,
    links,
    not_scaling,
    price,
    scales,
    volume,
)
from scalewise.explain.words import (
    bytes_phrase,
    listed,
    number_phrase,
    percent_phrase,
    percent_text,
    rate_phrase,
    seconds_phrase,
)
from scalewise.units import seconds_text

ROW = "H1.2"
EXPERIMENT = "strong-scaling"
TABLE = "h1-2-strong-scaling"
MODEL_TABLE = "h1-2-model"
LINEAR = "Is the speedup linear?"
DROP = "Where does efficiency drop?"
WHY = "What explains it, in numbers?"
ALL_OF_IT = "Is the speedup linear, where does efficiency drop, and what explains it?"
GOOD = 0.9  # efficiency below which ranks are said to be wasted


@dataclass(frozen=True)
class StrongScaling:
    """Everything H1.2 rests on; empty or None where it could not be had."""

    rows: tuple[ArmRow, ...]  # all ranks, oversubscribed ones too
    speedups: tuple[RankSpeedup, ...]  # over more than one rank, real scaling only
    amdahl: AmdahlFit | None
    amdahl_removed: AmdahlFit | None  # of the same steps without communication
    line: ComputeLine | None
    parts: tuple[StepParts, ...]
    refused: tuple[str, ...]  # links that could not be fitted, and why
    foretold: Foretelling  # ranks that are not here


def strong_scaling(evidence: Evidence) -> StrongScaling:
    """Tables, fits and the model's rows."""
    rows = evidence.rows(EXPERIMENT)
    speedups = _speedups(rows)
    line = compute_line(evidence, EXPERIMENT)
    found = (_parts(evidence, row, line) for row in rows if line is not None and scales(row))
    refused = tuple(
        f"{one.ranks} ranks: {one.reason}" for one in links(evidence).values() if isinstance(one, NoLinkFit)
    )
    removed = fit_amdahl(_speedups(evidence.rows(EXPERIMENT, intervention=REMOVED)))
    parts = tuple(part for part in found if part is not None)
    foretold = foretelling(evidence, EXPERIMENT)
    return StrongScaling(rows, speedups, fit_amdahl(speedups), removed, line, parts, refused, foretold)


def _speedups(rows: tuple[ArmRow, ...]) -> tuple[RankSpeedup, ...]:
    return tuple(
        RankSpeedup(row.ranks, row.scaling.speedup)
        for row in rows
        if row.ranks > 1 and scales(row) and row.scaling.speedup is not None
    )


def _parts(evidence: Evidence, row: ArmRow, line: ComputeLine | None) -> StepParts | None:
    if row.step_seconds is None or not row.samples_per_step or line is None:
        return None
    own, link = row.samples_per_step / row.ranks, link_at(evidence, row.ranks)
    return step_parts(row.step_seconds, row.ranks, own, line, link, volume(row), price(row))


def linear_answer(found: StrongScaling) -> Answer:
    """Linear where every interval holds the ideal; slower where even the upper end is below 1."""
    hole = not_scaling(found.rows, EXPERIMENT)
    if hole:
        return unanswered(ROW, LINEAR, hole)
    figures = listed([f"{number_phrase(one.speedup)} on {one.ranks} ranks" for one in found.speedups])
    last = found.speedups[-1]
    if all(one.speedup.high >= one.ranks for one in found.speedups):
        verdict = "Yes, as far as the intervals tell: the ideal lies inside each of them or below."
    elif last.speedup.high < 1:
        verdict = (
            "No: it is below 1. More ranks make the step slower, because what they add to a step is longer than what "
            "they take off it."
        )
    elif last.speedup.low <= 1:
        verdict = "No: at the most ranks it cannot be told from 1, so the added ranks gain nothing that shows."
    else:
        short = 1 - last.speedup.value / last.ranks
        verdict = f"No: it grows, but {percent_text(short)} of the ideal is missing on {last.ranks} ranks."
    text = f"{verdict} Measured: {figures}. {_amdahl_words(found)}"
    condition = (
        f"upper end of the speedup >= ranks at every count (here {_ends(found)}); below 1 at the most ranks: slower"
    )
    return Answer(ROW, LINEAR, text.strip(), condition, (TABLE,))


def _foretold(found: StrongScaling, hole: str) -> Answer:
    """What one rank alone lets expect: even free communication leaves the overhead."""
    row = next((row for row in found.rows if row.ranks == 1 and scales(row) and row.samples_per_step), None)
    if found.line is None or row is None or row.samples_per_step is None:
        return unanswered(ROW, ALL_OF_IT, hole)
    batch = row.samples_per_step

    def bound(ranks: int) -> Estimate:
        line = found.line
        assert line is not None
        return propagate(
            lambda t0, c: (t0 + c * batch) / (t0 + c * batch / ranks), line.overhead_seconds, line.sample_seconds
        )

    counts = sorted({row.ranks for row in found.rows if row.ranks > 1}) or [2]
    said = listed([f"{number_phrase(bound(ranks))} on {ranks} ranks" for ranks in counts])
    text = (
        f"Not measured: {hole}. Predicted from one rank: {seconds_phrase(found.line.overhead_seconds)} of its step do "
        f"not shrink with the batch, so even with free communication the speedup would be at most {said}."
    )
    return Answer(ROW, ALL_OF_IT, text, "no measured speedup; one rank with several batches", (TABLE,))


def _ends(found: StrongScaling) -> str:
    return listed([f"{one.speedup.high:.2f} at {one.ranks}" for one in found.speedups])


def _amdahl_words(found: StrongScaling) -> str:
    fit = found.amdahl
    if fit is None:
        return ""
    fraction = number_phrase(fit.serial_fraction)
    if not fit.lawful and fit.serial_fraction.value > 1:
        law = (
            f"Amdahl's law would need a serial fraction of {fraction}, above 1: it has no term for work that ranks add."
        )
    elif not fit.lawful:
        law = f"Amdahl's law would need a negative serial fraction ({fraction}): faster than ideal."
    else:
        limit = 1 / fit.serial_fraction.value if fit.serial_fraction.value > 0 else None
        most = f", at most {limit:.1f} times faster on any number of ranks" if limit else ""
        law = f"Amdahl's law fits with a serial fraction of {fraction}{most}."
    removed = found.amdahl_removed
    if removed is None:
        return law
    return f"{law} With communication taken away it is {number_phrase(removed.serial_fraction)}."


def drop_answer(found: StrongScaling) -> Answer:
    """The first count at which the interval of the efficiency lies below 90 %; none may do."""
    hole = not_scaling(found.rows, EXPERIMENT)
    if hole:
        return unanswered(ROW, DROP, hole)
    several = [row for row in found.rows if row.ranks > 1 and scales(row) and row.scaling.efficiency is not None]
    figures = [(row.ranks, row.scaling.efficiency, row.scaling.serial_fraction) for row in several]
    first = next((ranks for ranks, efficiency, _ in figures if efficiency and efficiency.high < GOOD), None)
    said = listed([f"{percent_phrase(efficiency)} on {ranks} ranks" for ranks, efficiency, _ in figures if efficiency])
    if first is None:
        text = f"Nowhere that shows: efficiency is {said}, and no interval lies below {percent_text(GOOD)}."
    else:
        fewer = "one rank" if first == several[0].ranks else f"{several[0].ranks} ranks"
        text = f"Between {fewer} and {first} ranks: {said}. {_karp_flatt_words(figures)}"
    skipped = [row for row in found.rows if row.mark in ("oversubscribed", "emulated")]
    if skipped:
        marks = listed([f"{row.ranks} ranks ({row.mark})" for row in skipped])
        text = f"{text.strip()} {marks[:1].upper()}{marks[1:]} cannot show scaling here and are left out."
    condition = f"first count whose efficiency has its upper end below {GOOD:g}"
    return Answer(ROW, DROP, text.strip(), condition, (TABLE,))


def _karp_flatt_words(figures: list[tuple[int, Estimate | None, Estimate | None]]) -> str:
    known = [(ranks, fraction) for ranks, _, fraction in figures if fraction is not None]
    if len(known) < 2:
        return ""
    (few, first), (many, last) = known[0], known[-1]
    numbers = f"Karp and Flatt's fraction is {number_phrase(first)} at {few} and {number_phrase(last)} at {many} ranks"
    if last.low > first.high:
        return f"{numbers}: it grows, so the loss is work that ranks add (communication), not a fixed serial part."
    if last.high < first.low:
        return f"{numbers}: it falls, so the first added rank cost more than later ones."
    return f"{numbers}: the same within the intervals, as a fixed serial part would give."


def why_answer(found: StrongScaling) -> Answer:
    """The parts of the step at the most ranks, and the residual of the model."""
    parts = [part for part in found.parts if part.ranks > 1]
    if not parts:
        return unanswered(ROW, WHY, _no_model(found))
    part = parts[-1]
    overhead = seconds_phrase(found.line.overhead_seconds) if found.line else seconds_text(part.overhead_seconds)
    residuals = listed([f"{percent_text(one.relative_residual)} on {one.ranks}" for one in found.parts])
    text = (
        f"On {part.ranks} ranks a step takes {seconds_phrase(part.measured_seconds)}. The model gives "
        f"{seconds_text(part.model_seconds)}: {overhead} that no smaller batch shortens, "
        f"{seconds_text(part.compute_seconds)} for {part.samples_per_rank:g} samples, and "
        f"{seconds_text(part.communication_seconds)} for communication by the measured link. "
        f"The residual (measured less model) is {residuals} rank{'' if found.parts[-1].ranks == 1 else 's'}. "
        f"{_residual_words(part)}"
    )
    condition = (
        "the loss whose interval lies above the other's is named; the sign of the residual beyond the interval of the "
        "step picks its reading"
    )
    return Answer(ROW, WHY, f"{_cause(part, found.line)} {text}".strip(), condition, (TABLE, MODEL_TABLE))


def _cause(part: StepParts, line: ComputeLine | None) -> str:
    """What a step loses against the ideal T(1)/N: all of its communication, and the overhead that nobody shares."""
    if line is None:
        return ""
    exchange = part.communication_measured or exact(part.communication_seconds)
    unshared = propagate(lambda overhead: max(0.0, overhead) * (1 - 1 / part.ranks), line.overhead_seconds)
    how = "by removing it" if part.communication_measured else "by the link"
    numbers = (
        f"{seconds_phrase(exchange)} to communication ({how}) and {seconds_phrase(unshared)} to overhead that ranks "
        "do not share"
    )
    lost = f"Against the ideal T(1)/{part.ranks} a step on {part.ranks} ranks loses {numbers}"
    if exchange.low > unshared.high:
        return f"Communication is the larger loss. {lost}."
    if exchange.high < unshared.low:
        return f"The fixed overhead is the larger loss. {lost}."
    return f"{lost}; which of the two is larger cannot be told."


def _residual_words(part: StepParts) -> str:
    half = (part.measured_seconds.high - part.measured_seconds.low) / 2
    if abs(part.residual_seconds) <= half:
        return "It is within the interval of the step: the parts explain it."
    if part.residual_seconds > 0:
        return (
            "Training communicates at a higher price than the link alone: copies into buckets, waiting for each other, "
            "and reducing on cores that also compute are not in the model."
        )
    return "The model is too slow: part of the communication runs behind backward and is not paid."


def _no_model(found: StrongScaling) -> str:
    hole = not_scaling(found.rows, EXPERIMENT)
    if hole:
        return hole
    if found.line is None:
        return "computing time could not be told from the runs without communication"
    return f"the link was not fitted ({'; '.join(found.refused) or 'not measured at these ranks'})"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """The three questions of H1.2; one answer to all of them where there is no speedup to speak of."""
    found = strong_scaling(evidence)
    hole = not_scaling(found.rows, EXPERIMENT)
    predicted = predicted_answer(ROW, [("", found.foretold)], (TABLE,))
    if hole:
        return (_foretold(found, few_gpus(evidence, EXPERIMENT) or hole), *predicted)
    return linear_answer(found), drop_answer(found), why_answer(found), *predicted


def link_words(evidence: Evidence) -> str:
    """What the link was fitted to, for the note under the model."""
    said = []
    for one in links(evidence).values():
        if isinstance(one, NoLinkFit):
            said.append(f"{one.ranks} ranks: not fitted, {one.reason}")
            continue
        typical = median(abs(share) for share in one.relative_residuals)
        worst, size = max(zip(one.relative_residuals, one.sizes, strict=True), key=lambda pair: abs(pair[0]))
        said.append(
            f"{one.ranks} ranks: latency {seconds_phrase(one.alpha_seconds)}, rate "
            f"{rate_phrase(one.bytes_per_second)}, by the shortest all-reduce of each of {len(one.sizes)} sizes to "
            f"{bytes_phrase(one.sizes[-1])}, "
            f"residual {percent_text(typical)} (median), {percent_text(worst)} at worst ({bytes_phrase(size)})"
        )
    return "; ".join(said) or "not measured"
