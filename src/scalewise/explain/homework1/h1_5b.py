"""H1.5B: does a larger batch scale better, and from which batch on does throughput stop growing."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.propagate import propagate
from scalewise.analysis.saturation import SATURATED, Saturation, saturation
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import scales
from scalewise.explain.words import listed, number_phrase, percent_phrase, percent_text, ranks_phrase, seconds_phrase

ROW = "H1.5B"
EXPERIMENT = "batch-scaling"
TABLE = "h1-5b-batch"
BETTER = "Does a larger batch scale better?"
WHEN = "When does it saturate?"


@dataclass(frozen=True)
class BatchScaling:
    """Throughput over the batch at the most ranks that are real scaling."""

    ranks: int
    rows: tuple[ArmRow, ...]  # at these ranks, smallest batch first
    other_rows: tuple[ArmRow, ...]  # oversubscribed or emulated ones
    saturation: Saturation | None


def batch_scaling(evidence: Evidence) -> BatchScaling | None:
    """None where no arm is usable."""
    rows = evidence.rows(EXPERIMENT)
    usable = [row for row in rows if scales(row)]
    if not usable:
        return None
    ranks = max(row.ranks for row in usable)
    chosen = tuple(sorted((row for row in usable if row.ranks == ranks), key=batch_of))
    others = tuple(sorted((row for row in rows if row.ranks > ranks), key=lambda row: (row.ranks, batch_of(row))))
    points = [(batch_of(row), row.step_seconds) for row in chosen if row.step_seconds is not None]
    return BatchScaling(ranks, chosen, others, saturation(points))


def batch_of(row: ArmRow) -> float:
    """The global batch of the arm, as the suite asked for it."""
    return float(row.axes.get("batch", row.samples_per_step or 0))


def better_answer(found: BatchScaling | None) -> Answer:
    """By the efficiency of the smallest and the largest batch; by throughput where there is but one rank."""
    if found is None or len(found.rows) < 2:
        return unanswered(ROW, BETTER, f"{EXPERIMENT} has no two usable batches")
    first, last = found.rows[0], found.rows[-1]
    small, large = first.scaling.efficiency, last.scaling.efficiency
    if found.ranks == 1 or small is None or large is None:
        return _by_throughput(found, first, last)
    numbers = (
        f"on {ranks_phrase(found.ranks)} efficiency is {percent_phrase(small)} at batch {batch_of(first):g} and "
        f"{percent_phrase(large)} at {batch_of(last):g}"
    )
    if large.low > small.high:
        text = (
            f"Yes: {numbers}. Communication and fixed costs do not grow with the batch, so a larger one spreads them "
            "over more samples."
        )
    elif large.high < small.low:
        text = f"No, worse: {numbers}. Something grows faster than the batch, such as memory traffic on shared cores."
    else:
        text = f"Not so that it shows: {numbers}, and the intervals overlap."
    if large.high * found.ranks < 1:
        text += f" Even the largest batch is slower on {ranks_phrase(found.ranks)} than on one."
    condition = "interval of the efficiency at the largest batch above, below or across that at the smallest"
    return Answer(ROW, BETTER, text, condition, (TABLE,))


def _by_throughput(found: BatchScaling, first: ArmRow, last: ArmRow) -> Answer:
    small, large = first.samples_per_second, last.samples_per_second
    if small is None or large is None:
        return unanswered(ROW, BETTER, f"{EXPERIMENT} has no throughput")
    numbers = (
        f"{number_phrase(small, 'samples/s')} at batch {batch_of(first):g} and {number_phrase(large, 'samples/s')} at "
        f"{batch_of(last):g}"
    )
    if large.low > small.high:
        word = "Throughput grows"
    else:
        word = "Throughput falls" if large.high < small.low else "Throughput does not clearly change"
    text = f"{word} with the batch: {numbers}. This is {ranks_phrase(found.ranks)}, so it says nothing of scaling."
    return Answer(ROW, BETTER, text, "one rank only: throughput of the largest against the smallest batch", (TABLE,))


def when_answer(found: BatchScaling | None) -> Answer:
    """The batch of 90 % of the limit, inside or outside of what was measured."""
    if found is None or len(found.rows) < 3:
        return unanswered(ROW, WHEN, f"{EXPERIMENT} has no three usable batches at one number of ranks")
    largest = batch_of(found.rows[-1])
    gain = last_gain(found)
    doubling = f"The last doubling, to {largest:g}, multiplies throughput by {number_phrase(gain)}." if gain else ""
    fit = found.saturation
    if fit is None:
        text = (
            f"Not within the measured batches: the step does not clearly grow up to {largest:g}, so a larger batch is "
            f"almost free and throughput has no limit in sight. {doubling}"
        )
        return Answer(
            ROW, WHEN, text.strip(), "the step's growth per sample is not above 0 with its interval", (TABLE,)
        )
    numbers = (
        f"A step takes {seconds_phrase(fit.fixed_seconds)} plus {seconds_phrase(fit.sample_seconds)} per sample, so "
        f"throughput tends to {number_phrase(fit.limit_per_second, 'samples/s')} and reaches "
        f"{percent_text(SATURATED)} of it at a batch of {number_phrase(fit.batch)} (worst residual "
        f"{percent_text(max(fit.relative_residuals, key=abs))})."
    )
    reached = f"At {largest:g} it is at {percent_text(fit.share(largest))} of the limit."
    if fit.batch.high <= 0:
        verdict = "There is nothing to saturate: no part of the step is fixed."
    elif fit.batch.high <= largest:
        verdict = "It saturates inside the measured batches."
    elif fit.batch.low <= largest:
        verdict = "Whether it saturates inside the measured batches cannot be told."
    else:
        verdict = "It does not saturate inside the measured batches."
    condition = (
        f"interval of the batch at {percent_text(SATURATED)} of the fitted limit below, across or above the largest "
        f"batch measured ({largest:g})"
    )
    return Answer(ROW, WHEN, f"{verdict} {numbers} {reached} {doubling}".strip(), condition, (TABLE,))


def last_gain(found: BatchScaling) -> Estimate | None:
    """Throughput of the largest batch over that of the one before."""
    before, last = found.rows[-2].samples_per_second, found.rows[-1].samples_per_second
    if before is None or last is None:
        return None
    return propagate(lambda a, b: b / a, before, last)


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """Both questions of H1.5B."""
    found = batch_scaling(evidence)
    return better_answer(found), when_answer(found)


def efficiency_words(found: BatchScaling) -> str:
    """What efficiency means in the table."""
    skipped = listed(sorted({f"{ranks_phrase(row.ranks)} ({row.mark})" for row in found.other_rows}))
    base = f"Efficiency: against one rank with the same batch, at {ranks_phrase(found.ranks)}"
    return f"{base}; {skipped} shown without it." if skipped else f"{base}."
