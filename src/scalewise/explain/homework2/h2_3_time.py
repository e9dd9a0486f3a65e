"""H2.3, time: how the codes' steps differ, split into synchronisation, precision and micro-batches; the parts add up.

A step is the step without communication, and what communication adds. Code 1 and Code 3 do the same in other
precisions; Code 2 and Code 3 have the same precision and other micro-batches. So from Code 1 to Code 3 to Code 2 each
stage changes one thing, and what it changes without communication is that thing's price.
"""

from dataclasses import dataclass, replace
from typing import Literal

from scalewise.analysis.arms import arm_of
from scalewise.analysis.communication import BY_REMOVAL
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.propagate import exact, propagate
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import all_reduces, contrast, hole, runs_of
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION, BOTH, CODES, MIXED, NAMES, code_row
from scalewise.explain.words import bytes_phrase, listed, seconds_phrase

ROW = "H2.3"
QUESTION = "Where do the time differences come from: synchronisation or precision?"
TABLE = "h2-3-time"
REMOVED = "remove_communication"
Cause = Literal["precision", "micro-batches"]
STAGES: tuple[tuple[str, str, Cause], ...] = ((ACCUMULATION, BOTH, "precision"), (BOTH, MIXED, "micro-batches"))


@dataclass(frozen=True)
class Halves:
    """One code's step as computing and synchronising; means of the runs' medians, so that they add up."""

    code: str
    step: Estimate
    computing: Estimate  # the step without communication
    synchronising: Estimate  # what communication adds


@dataclass(frozen=True)
class Stage:
    """From one code to another that differs in one thing."""

    before: str
    after: str
    cause: Cause
    whole: Estimate  # change of the step
    computing: Estimate  # of which: the cause
    synchronising: Estimate  # of which: communication


def halves_of(evidence: Evidence, code: str) -> Halves | None:
    """None where one of the two arms is missing; a single rank has nothing to synchronise."""
    plain, removed = code_row(evidence, code), code_row(evidence, code, REMOVED)
    if plain is not None and plain.ranks == 1 and plain.step_seconds is not None:
        return Halves(code, plain.step_seconds, plain.step_seconds, exact(0.0))
    if plain is None or removed is None or plain.step_seconds is None or removed.step_seconds is None:
        return None
    means = []
    for row in (plain, removed):
        medians = [one.median.seconds for one in arm_of(runs_of(evidence, row)).measured]
        means.append(sum(medians) / len(medians))
    step, computing = _moved(plain.step_seconds, means[0]), _moved(removed.step_seconds, means[1])
    priced = next((one for one in plain.communication if one.method == BY_REMOVAL), None)
    apart = _difference(computing, step)
    return Halves(code, step, computing, replace(apart, low=priced.low, high=priced.high) if priced else apart)


def stages_of(evidence: Evidence) -> tuple[Stage, ...]:
    """Those of which both codes were measured with and without communication."""
    found = {code: halves_of(evidence, code) for code in CODES}
    stages = []
    for before, after, cause in STAGES:
        a, b = found[before], found[after]
        if a and b:
            whole = _paired(evidence, a.step, b.step, before, after)
            computing = _paired(evidence, a.computing, b.computing, before, after, REMOVED)
            stages.append(Stage(before, after, cause, whole, computing, _difference(a.synchronising, b.synchronising)))
    return tuple(stages)


def _paired(
    evidence: Evidence, a: Estimate, b: Estimate, before: str, after: str, intervention: str = "none"
) -> Estimate:
    """The difference, with the interval of runs taken in turns where they were."""
    rows = [code_row(evidence, code, intervention) for code in (before, after)]
    alone = [code_row(evidence, code) if row is None else row for code, row in zip((before, after), rows, strict=True)]
    found = contrast(evidence, alone[0], alone[1])
    apart = _difference(a, b)
    return _moved(found.seconds, apart.value) if found else apart


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer over all stages."""
    stages = stages_of(evidence)
    if not stages:
        missing = [hole(evidence, "codes", code=code) for code in CODES if halves_of(evidence, code) is None]
        return (unanswered(ROW, QUESTION, f"{listed(missing)}, with and without communication"),)
    said = [_stage_words(stage) for stage in stages]
    conditions = [f"{NAMES[one.before]} to {NAMES[one.after]}: {_larger(one)[1]}" for one in stages]
    return (Answer(ROW, QUESTION, " ".join([*said, _volume(evidence)]).rstrip(), "; ".join(conditions), (TABLE,)),)


def _stage_words(stage: Stage) -> str:
    direction = "longer" if stage.whole.value > 0 else "shorter"
    size, between = _size(stage.whole), f"From {NAMES[stage.before]} to {NAMES[stage.after]} the step"
    if size.low > 0:
        whole = f"{between} gets {seconds_phrase(size)} {direction}"
    else:
        whole = f"{between} changes by {seconds_phrase(stage.whole)}, which cannot be told from nothing"
    if _alone(stage):
        return f"{whole}, by {_named(stage.cause)}."
    parts = f"{_signed(stage.computing)} by {_named(stage.cause)}, {_signed(stage.synchronising)} by synchronisation"
    return f"{whole}: {parts}. {_larger(stage)[0]}"


def _alone(stage: Stage) -> bool:
    """One rank: no synchronisation on either side."""
    return stage.synchronising.low == stage.synchronising.high == 0


def _named(cause: Cause) -> str:
    return {"precision": "precision (casts and scaler included)", "micro-batches": "fewer, larger micro-batches"}[cause]


def _larger(stage: Stage) -> tuple[str, str]:
    """The sentence for the larger cause, and the rule that chose it."""
    if _alone(stage):
        return "", f"one rank, so {stage.cause} alone; interval of the change {_place(stage.whole)}"
    sizes = {stage.cause: _size(stage.computing), "synchronisation": _size(stage.synchronising)}
    clear = [name for name, size in sizes.items() if size.low > 0]
    if not clear:
        return "Neither part can be told from nothing.", "both intervals hold 0"
    if len(clear) == 1:
        other = next(name for name in sizes if name not in clear)
        return (
            f"Only that of {clear[0]} can be told from nothing.",
            f"the interval of {other} holds 0, that of {clear[0]} does not",
        )
    first = max(sizes, key=lambda name: sizes[name].value)
    second = next(name for name in sizes if name != first)
    return f"Most of it is {first}.", f"|{first}| > |{second}|, and neither interval holds 0"


def _place(found: Estimate) -> str:
    return "holds 0" if _size(found).low <= 0 else f"lies {'above' if found.value > 0 else 'below'} 0"


def _volume(evidence: Evidence) -> str:
    """Why synchronisation hardly differs, or does: the bytes."""
    rows = {code: code_row(evidence, code) for code in CODES}
    sizes = {NAMES[code]: all_reduces(evidence, row)[1] for code, row in rows.items() if row}
    if all(row is None or row.ranks == 1 for row in rows.values()):
        return "One rank has nobody to synchronise with: that part needs two."
    if len(sizes) < 2 or not all(sizes.values()):
        return ""
    if len(set(sizes.values())) == 1:
        size = bytes_phrase(next(iter(sizes.values())))
        return f"All codes all-reduce the same {size} once per optimizer step: gradients stay float32 under autocast."
    return (
        f"They all-reduce different amounts per step: {listed([f'{k} {bytes_phrase(v)}' for k, v in sizes.items()])}."
    )


def _moved(found: Estimate, centre: float) -> Estimate:
    """The interval around the mean of the runs instead of their geometric mean."""
    shift = centre - found.value
    return replace(found, value=centre, low=found.low + shift, high=found.high + shift)


def _difference(a: Estimate, b: Estimate) -> Estimate:
    return propagate(lambda x, y: y - x, a, b)


def _size(found: Estimate) -> Estimate:
    """Without its sign; the low end is negative where the interval holds 0."""
    if found.value >= 0:
        return found
    return replace(found, value=-found.value, low=-found.high, high=-found.low)


def _signed(found: Estimate) -> str:
    return f"{'+' if found.value > 0 else ''}{seconds_phrase(found)}"
