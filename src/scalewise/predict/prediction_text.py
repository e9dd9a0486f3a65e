"""Puts an answer and its conclusions into words; every number says what it is."""

from collections.abc import Iterator, Sequence
from math import expm1
from pathlib import Path

from scalewise.analysis.estimate import Estimate, level_text
from scalewise.predict.advice import Changes
from scalewise.predict.answer import Checked, RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.cost import CostRow
from scalewise.predict.efficiency_threshold import EfficiencyThreshold
from scalewise.predict.order import Order
from scalewise.predict.predicted_memory import PredictedMemory
from scalewise.predict.predicted_scaling import ScalingRow, ScalingTable
from scalewise.predict.prediction import LEVEL
from scalewise.records.spec import RunSpec
from scalewise.units import bytes_text, seconds_text, three_digits, with_capital

GUESSED = "*"  # follows what rests on a guess
ORIGINS = {
    "measured": "measured here",
    "catalogue": "of the catalogue",
    "given": "as given",
    "emulated": "emulated",
}


def title_text(answer: RehearsalAnswer) -> str:
    """The script and the numbers of ranks for which it was rehearsed."""
    numbers = ", ".join(str(at.ranks) for at in answer.at)
    ranks = f" on {numbers} rank{'' if numbers == '1' else 's'}" if numbers else ""
    return f"{Path(answer.script).name}{ranks}"


def setting_text(answer: RehearsalAnswer) -> str:
    """A sentence that says over which link, and where its figures come from."""
    per_node = f", {ranks_text(answer.link.ranks_per_node)} a node" if answer.link.ranks_per_node else ""
    return f"Link {answer.link.name}, {ORIGINS[answer.link.origin]}{per_node}. Intervals are of {level_text(LEVEL)}."


def base_text(table: ScalingTable) -> str:
    """A sentence about one rank, and about what more ranks do if there are more."""
    how = "measured" if table.base.measured else f"rehearsed, not measured{GUESSED if table.base_modelled else ''}"
    samples = f" with {table.base.samples:g} samples" if table.base.samples else ""
    alone = f"One rank: {step_text(table.base.step)} a step{samples}, {how}."
    if not table.further or table.doubt:
        return alone
    kind = "all ranks share its batch" if table.kind == "strong" else "each rank has a batch as large"
    return f"{alone} {table.kind.capitalize()} scaling: {kind}. Ideal: an efficiency of 100 %."


def bounds_text(table: ScalingTable, guesses: Sequence[str]) -> list[str]:
    """A sentence for every row; it names an ideal step only if samples are not in doubt, and not for one rank."""
    return [bound_text(row, guesses, ideal=row.ranks > 1 and not table.doubt) for row in table.rows]


def bound_text(row: ScalingRow, guesses: Sequence[str], *, ideal: bool = True) -> str:
    """A sentence about the parts of the step of this many ranks, compared with an ideal one."""
    what = {
        "computing": "computing",
        "data": "waiting for data",
        "communication": "the bytes of its messages",
        "latency": "the latency of its messages, not their bytes",
    }[row.bound]
    computing = seconds_text(row.compute_seconds)
    against = f" (an ideal step: {seconds_text(row.ideal.step.value)})" if ideal else ""
    return (
        f"{ranks_text(row.ranks)}: bound by {what}; computing takes {computing}{against}, "
        f"messages hold it up for {100 * row.exposed_share:.0f} % of the step ({predicted_word(guesses)})."
    )


def order_text(order: Order) -> str:
    """A sentence that says which of two numbers of ranks does more, and how certain that is."""
    what = "step" if order.by_step else "throughput"
    does = f"{'shorter' if order.by_step else 'more'} {what} than {ranks_text(order.second)}"
    return (
        f"{ranks_text(order.first)}: {does} ({order.ratio:.3g} times), order certain with {certain(order.certainty)}."
    )


def certain(probability: float) -> str:
    """A probability as text, never one of 0 or 100 %: `97 %`, `over 99 %`."""
    percent = 100 * probability
    return "over 99 %" if percent > 99 else "under 1 %" if percent < 1 else f"{percent:.0f} %"


def threshold_text(threshold: EfficiencyThreshold, guesses: Sequence[str]) -> str:
    """A sentence that says where efficiency falls below the share."""
    share, word = f"{100 * threshold.share:.0f} %", predicted_word(guesses)
    if threshold.ranks is None:
        early = f"; by the lower end of the interval from {threshold.earliest} on" if threshold.earliest else ""
        return f"Efficiency stays above {share} up to {ranks_text(threshold.looked_to)} ({word}{early})."
    latest = str(threshold.latest) if threshold.latest else f"more than {threshold.looked_to}"
    sure = threshold.earliest == threshold.latest
    interval = "" if sure else f", interval {threshold.earliest} to {latest}"
    beyond = ", farther than was rehearsed" if threshold.beyond else ""
    return f"Efficiency falls under {share} at {ranks_text(threshold.ranks)} ({word}{interval}{beyond})."


def check_text(check: Checked) -> str:
    """A sentence that compares a prediction with its measurement."""
    error = f"{100 * (check.ratio - 1):+.1f} %"
    where = "inside" if check.inside else "OUTSIDE"
    return (
        f"{ranks_text(check.ranks)}: predicted {step_text(check.predicted)}, measured {step_text(check.measured)}: "
        f"{error}, {where} the interval that was predicted."
    )


def checks_text(answer: RehearsalAnswer) -> list[str]:
    """A sentence for every check, and one on how predictions are corrected by their error."""
    told = [check_text(one) for one in answer.checks]
    moved = [
        f"{ranks_text(at.ranks)} by {100 * expm1(-at.predicted.spread.shift):+.1f} %"
        for at in answer.at
        if at.predicted.spread.shift
    ]
    if not told or not moved:
        return told
    return [*told, f"Predicted steps are corrected by what of that error is likely to last: {', '.join(moved)}."]


def change_notes(changes: Changes) -> Iterator[str]:
    """Lines about what the changes mean and assume, each once, and about what cannot be predicted."""
    meant: dict[str, list[str]] = {}
    guessed: dict[str, list[str]] = {}
    for one in (one for one in changes.changes if one.verdict != "does not help"):
        meant.setdefault(one.why, []).append(one.what)
        for guess in one.guesses:
            guessed.setdefault(guess, []).append(one.what)
    yield from (f"{', '.join(names)}: {text}." for text, names in meant.items())
    yield from (f"Guess ({', '.join(names)}): {text}." for text, names in guessed.items())
    yield from (f"Not told: {left.what}: {left.reason}." for left in changes.left_out)


def memory_text(row: PredictedMemory) -> str:
    """A sentence that says whether a rank fits in memory, and the largest batch that would."""
    told = f"{ranks_text(row.ranks)}: {_peak_text(row)}"
    if row.largest_batch is None:
        return f"{told}."
    now = f", now {row.samples:g}" if row.samples else ""
    word = predicted_word(row.guesses)
    return f"{told}. Largest batch of a rank that fits: {row.largest_batch} ({word}{now})."


def _peak_text(row: PredictedMemory) -> str:
    """The peak memory as text; not known if the batch is not the one that was rehearsed."""
    if row.peak_bytes is None:
        return "what a rank needs at most is not known"
    seen = f", {bytes_text(row.measured_bytes)} measured" if row.measured_bytes is not None else ""
    told = f"a rank needs {bytes_text(row.peak_bytes)} ({predicted_word(row.peak_guesses)}{seen})"
    if row.capacity_bytes is None:
        return told
    return f"{told} of {bytes_text(row.capacity_bytes)}: {'fits' if row.fits else 'DOES NOT FIT'}"


def memory_notes(rows: Sequence[PredictedMemory]) -> Iterator[str]:
    """Lines about where the largest batches come from, or why there are none; each once."""
    yield from dict.fromkeys(
        f"Largest batches are worked out {row.line.how}." for row in rows if row.line and row.largest_batch is not None
    )
    yield from dict.fromkeys(f"{GUESSED} guess: {guess}." for row in rows for guess in row.guesses)
    yield from dict.fromkeys(f"No largest batch: {row.why_not}." for row in rows if row.why_not)


def cost_text(row: CostRow, device: str, guesses: Sequence[str]) -> str:
    """A sentence with the hours, and the money if a price is known."""
    unit = "GPU-hours" if device == "cuda" else "rank-hours"
    samples = f" ({row.samples:.0f} samples)" if row.samples else ""
    cost = f", cost {range_text(row.cost)}" if row.cost is not None else ""
    return (
        f"{ranks_text(row.ranks)}: {row.steps} step{'' if row.steps == 1 else 's'}{samples} take "
        f"{range_text(row.hours)} hours, {range_text(row.gpu_hours)} {unit}{cost} ({predicted_word(guesses)})."
    )


def rests_on(answer: RehearsalAnswer, found: Conclusions) -> Iterator[tuple[str, str]]:
    """Everything to doubt: pairs of a word and a sentence."""
    for refused in answer.refused:
        yield "Refused", f"{ranks_text(refused.ranks)}: {refused.reason} {refused.hint}".rstrip()
    for warning in answer.warnings:
        yield "Warning", with_capital(warning)
    for guess in found.guesses:
        yield "Guess", guess
    if answer.link.source:
        yield "Source", f"{answer.link.name}: {answer.link.source}"


def predicted_word(guesses: Sequence[str]) -> str:
    """The word that stands beside a number that was not measured."""
    return f"predicted{GUESSED if guesses else ''}"


def stood_for(spec: RunSpec) -> str:
    """The ranks that the processes of a rehearsal represented, such as `ranks 0 to 1 of 8`."""
    assert spec.rehearsed is not None
    first, last, size = spec.rehearsed.rank, spec.rehearsed.rank + spec.ranks - 1, spec.rehearsed.world_size
    return f"{f'rank {first}' if first == last else f'ranks {first} to {last}'} of {size}"


def ranks_text(ranks: int) -> str:
    """A number of ranks as text: 1 rank, 2 ranks."""
    return f"{ranks} rank{'' if ranks == 1 else 's'}"


def step_text(step: Estimate) -> str:
    """A duration and its interval in one unit: 19.4 ms [18.4, 20.5]."""
    value = seconds_text(step.value)
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[value.split()[-1]]
    return f"{value} [{three_digits(step.low * scale)}, {three_digits(step.high * scale)}]"


def range_text(told: Estimate, scale: float = 1.0) -> str:
    """A number and its interval, small ones with three significant digits: 2.31 [2.10, 2.52]."""
    value, low, high = (_amount(one * scale) for one in (told.value, told.low, told.high))
    return value if low == high else f"{value} [{low}, {high}]"


def _amount(value: float) -> str:
    return three_digits(value) if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"
