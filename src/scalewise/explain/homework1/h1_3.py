"""H1.3: communication against computation for a small and a large model, and where the two are equal."""

from dataclasses import replace

from scalewise.analysis.propagate import propagate
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.balances import EXPERIMENT, Balance, balances, cases, counted
from scalewise.explain.homework1.foretold import Foretelling, foretelling
from scalewise.explain.homework1.foretold_words import predicted_answer
from scalewise.explain.homework1.pieces import few_gpus, not_scaling, scales, weights
from scalewise.explain.words import bytes_phrase, listed, number_phrase, percent_phrase, rate_phrase, seconds_phrase

ROW = "H1.3"
TABLE = "h1-3-model-size"
RATIO_TABLE = "h1-3-bytes-and-flops"
WHICH = "In which case is DDP more efficient?"
WHY = "Why?"
WHEN = "When does communication become the bottleneck?"
VAGUE = 0.5  # of a value: an interval wider than this to either side tests nothing
SAME = 0.01  # bytes per flop of two cases that differ by less are called equal


def which_answer(evidence: Evidence, found: tuple[Balance, ...]) -> Answer:
    """The case whose efficiency lies above the other's with its whole interval; neither where they overlap."""
    known = [(one, one.row.scaling.efficiency) for one in found if one.row.scaling.efficiency is not None]
    pairs = [(one, efficiency) for one, efficiency in known if efficiency is not None]
    if len(pairs) < 2 or len({one.row.ranks for one, _ in pairs}) != 1:
        return unanswered(ROW, WHICH, _hole(evidence))
    ordered = sorted(pairs, key=lambda pair: pair[1].value)
    (worse, low), (better, high) = ordered[0], ordered[-1]
    ranks = better.row.ranks
    numbers = (
        f"{percent_phrase(high)} for {_named(better)} and {percent_phrase(low)} for {_named(worse)} on {ranks} ranks"
    )
    if high.low > low.high:
        text = f"The {better.case.name} one: efficiency is {numbers}."
    else:
        text = f"Neither, as far as can be told: efficiency is {numbers}, and the intervals overlap."
    slow = [one.case.name for one, efficiency in pairs if efficiency.high * ranks < 1]
    if len(slow) == len(pairs):
        text += f" In no case does DDP pay: with {ranks} ranks each of them is slower than with one."
    elif slow:
        text += f" With {ranks} ranks the {listed(slow)} one is slower than with one."
    condition = "lower end of the better efficiency above the upper end of the other; else neither"
    return Answer(ROW, WHICH, text, condition, (TABLE,))


def why_answer(evidence: Evidence, found: tuple[Balance, ...]) -> Answer:
    """Bytes per flop do not depend on the size; if the times' ratio differs, something other than size does it."""
    known = [one for one in found if one.ratio is not None]
    per_flop = counted(evidence)
    if len(per_flop) < 2 or len({own for _, _, own in per_flop}) != 1:
        return unanswered(ROW, WHY, _hole(evidence))
    values, own = [value for _, value, _ in per_flop], per_flop[0][2]
    equal = abs(max(values) / min(values) - 1) <= SAME
    law = (
        f"For L stacked D x D layers a rank reduces 4 D^2 L bytes and computes 6 b D^2 L flop at b samples, so bytes "
        f"per flop are 2 / (3 b) whatever D and L; with b = {own:g} that is {2 / 3 / own:.4f}."
    )
    seen = listed([f"{value:.4f} for {case.name}" for case, value, _ in per_flop])
    tested = f"Counted: {seen}, {'equal' if equal else 'not equal, so the cases differ in more than size'}."
    times = _ratio_words(known) if len(known) > 1 else "No times of real ranks are there to test it further."
    condition = f"bytes per flop within {SAME:.0%} of each other; intervals of communication / computing apart or not"
    return Answer(ROW, WHY, f"{law} {tested} {times}", condition, (RATIO_TABLE,) if found else (TABLE,))


def _ratio_words(known: list[Balance]) -> str:
    ratios = [(one, one.ratio) for one in known]
    ordered = sorted(((one, ratio) for one, ratio in ratios if ratio), key=lambda pair: pair[1].value)
    (light, low), (heavy, high) = ordered[0], ordered[-1]
    said = (
        f"Communication over computing is {number_phrase(high)} for {heavy.case.name} and {number_phrase(low)} for "
        f"{light.case.name}"
    )
    if high.low > low.high:
        return f"{said}. Size cannot be the cause; the rates are: {_rate_words(heavy)}, {_rate_words(light)}."
    if max(high.half_width, low.half_width) > VAGUE:
        return f"{said}: too uncertain here to tell whether the times follow."
    return f"{said}: the same within the intervals, as equal bytes per flop demand. Size alone does not help DDP."


def _rate_words(one: Balance) -> str:
    if one.communication is None or one.computing is None:
        return f"{one.case.name}: not known"
    link = one.bytes / one.communication.value / 1e9 if one.communication.value > 0 else float("inf")
    flop = one.flops / one.computing.value / 1e9
    return f"{one.case.name} reaches {link:.2f} GB/s and {flop:.0f} GFLOP/s"


def when_answer(evidence: Evidence, found: tuple[Balance, ...]) -> Answer:
    """The batch per rank and the link rate of balance, for every case that has them."""
    if not any(one.batch is not None for one in found):
        return _foretold(evidence)
    text = " ".join(_when_words(one) for one in found)
    condition = (
        "batch of balance = (communication - overhead) / time per sample: its interval below 0, below, across or above "
        "the batch per rank that was run"
    )
    return Answer(ROW, WHEN, text, condition, (TABLE, RATIO_TABLE))


def _foretold(evidence: Evidence) -> Answer:
    """From one rank alone: the link at which its gradients would take as long as its computing."""
    said = []
    for case in cases(evidence):
        row = next((row for row in case.rows if row.ranks == 1 and scales(row)), None)
        count = weights(row, evidence) if row else None
        if row is None or row.step_seconds is None or not count or not row.samples_per_step:
            continue
        rate = propagate(lambda step, size=4.0 * count: size / step, row.step_seconds)
        said.append(
            f"the {case.name} model computes {row.samples_per_step:g} samples in {seconds_phrase(row.step_seconds)} "
            f"and would reduce {bytes_phrase(4 * count)}, so communication is the bottleneck on any link below "
            f"{rate_phrase(rate)}"
        )
    if not said:
        return unanswered(ROW, WHEN, _hole(evidence))
    text = f"Not measured: {_hole(evidence)}. Predicted from one rank: {listed(said)}, at that batch per rank."
    return Answer(ROW, WHEN, text, "no measured communication; 4 bytes per weight over one rank's step", (TABLE,))


def _when_words(one: Balance) -> str:
    batch, ranks, own = one.batch, one.row.ranks, one.samples_per_rank
    name = f"The {one.case.name} model"
    if batch is None or one.communication is None:
        return f"{name}: not known, its computing time over the batch could not be told."
    if one.communication.low <= 0 < batch.high:
        price_now = seconds_phrase(one.communication)
        return f"{name}: not known, what it pays for communication ({price_now}) cannot be told from nothing."
    cost = f"pays {seconds_phrase(one.communication)} for communication on {ranks} ranks"
    if batch.high <= 0:
        said = f"{name} {cost}, less than its fixed overhead: communication is no bottleneck at any batch."
    elif batch.low <= own < batch.high:
        said = (
            f"{name} {cost}; the batch at which computing takes as long, {number_phrase(batch, 'samples per rank')}, "
            f"cannot be told from the {own:g} that were run."
        )
    elif batch.value <= 0:
        said = (
            f"{name} {cost}, less than computing takes at the {own:g} samples that were run: it is no bottleneck "
            f"there. If it is one at all, then below {batch.high:.3g} samples per rank."
        )
    elif batch.low > own:
        said = (
            f"{name} {cost}; computing takes as long only at {number_phrase(batch, 'samples per rank')}, and {own:g} "
            "were run: communication is the bottleneck now."
        )
    else:
        said = (
            f"{name} {cost}; computing takes as long at {number_phrase(batch, 'samples per rank')} already, and "
            f"{own:g} were run: communication is the bottleneck only below that."
        )
    if one.link_rate is None:
        return said
    return f"{said} At {own:g} samples the two would be equal over a link of {rate_phrase(one.link_rate)}."


def _named(one: Balance) -> str:
    return f"{one.case.name} ({one.case.used})" if one.case.used else one.case.name


def _hole(evidence: Evidence) -> str:
    names = cases(evidence)
    if not names:
        return f"the experiment {EXPERIMENT} was not run"
    holes = {case.name: hole for case in names if (hole := not_scaling(case.rows, EXPERIMENT))}
    few = few_gpus(evidence, EXPERIMENT)
    if few:
        return few
    if len(set(holes.values())) == 1 and len(holes) == len(names):
        return next(iter(holes.values()))
    if holes:
        return "; ".join(f"{name}: {hole}" for name, hole in holes.items())
    return "two cases with communication measured at the same ranks are needed"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """The three questions of H1.3; the first two are not asked apart where nothing answers them."""
    found = balances(evidence)
    every = which_answer(evidence, found), why_answer(evidence, found), when_answer(evidence, found)
    predicted = predicted_answer(ROW, foretellings(evidence), (TABLE,))
    answered = tuple(one for one in every if one.rests_on)
    if answered == every[2:] and not found:
        return (replace(every[2], question=f"{WHICH} {WHY} {WHEN}"), *predicted)
    return (*(every if answered else (unanswered(ROW, f"{WHICH} {WHY} {WHEN}", _hole(evidence)),)), *predicted)


def foretellings(evidence: Evidence) -> list[tuple[str, Foretelling]]:
    """Of every case, by its name."""
    return [(case.name, foretelling(evidence, EXPERIMENT, case=case.name)) for case in cases(evidence)]
