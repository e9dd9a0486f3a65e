"""H1.3: communication against computation, for a small and a large model on 1, 2 and 4 ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.propagate import propagate
from scalewise.analysis.ratio import Equivalence, equivalent, ratio_of
from scalewise.course.captions import setting
from scalewise.course.homework1.comparable_rows import (
    EQUAL,
    MARGIN,
    on_gpus,
    why_no_scaling,
)
from scalewise.course.homework1.doubts import shaken_by
from scalewise.course.homework1.h1_3_work import (
    EXPERIMENT,
    REACHED,
    WORK_TABLE,
    CaseWork,
    case_work,
    reached_figure,
    work_table,
)
from scalewise.course.homework1.points import GPU_NOTE, RanksPoint, gpu_heading, gpu_points, points_of_arm
from scalewise.course.homework1.predicted_ranks import ArmPrediction, predicted_ranks, told
from scalewise.course.seen import refusals
from scalewise.report.cells import (
    estimate_cell,
    said,
    said_with_interval,
    text_cell,
)
from scalewise.report.document import Answer, Block, Cell, Column, Section, Table
from scalewise.units import listed, ranks_phrase

ORDER = 30
ROW = "H1.3"
TABLE = "h1-3-model-size"
WHICH, WHY = "In which case is DDP more efficient?", "Why?"
WHEN = "When does communication become the bottleneck?"
HINTS = {
    WHICH: "the efficiencies of both cases on the same number of ranks, and their ratio",
    WHY: "bytes per flop, computing and communication of both cases",
    WHEN: "the share of the step that is communication, and what it would be with other batches",
}
CASES = ("small", "large")
FIXED_COSTS = "What a step costs whatever its size weighs less in the longer step of the large model."


@dataclass(frozen=True)
class Sizes:
    """The data for H1.3."""

    points: tuple[tuple[str, RanksPoint], ...]  # (case, row)
    gpus: tuple[tuple[str, RanksPoint], ...]
    works: tuple[CaseWork, ...]
    predictions: tuple[tuple[str, ArmPrediction], ...]
    better: Estimate | None  # efficiency of large over that of small, on the ranks of `at`
    at: tuple[RanksPoint, RanksPoint] | None  # small and large on as many ranks
    hole: str

    @property
    def better_cell(self) -> Cell:
        """The efficiency of the large model over that of the small one."""
        return estimate_cell(self.better)


def build(evidence: Evidence) -> Section:
    """Builds the section: tables, the reached rates, answers."""
    found = sizes(evidence)
    blocks: list[Block] = [_table(evidence, found)]
    if found.works:
        blocks.append(work_table(found.works))
    reached = reached_figure(evidence, found.works)
    blocks += [reached] if reached else []
    answers = _which(evidence, found), _why(evidence, found), _when(evidence, found)
    return Section("h1-3", "Communication against computation", (*blocks, *answers))


def sizes(evidence: Evidence) -> Sizes:
    """Returns rows of both cases, the work of a rank in each, and how they compare."""
    predictions = tuple((case, predicted_ranks(evidence, EXPERIMENT, case=case)) for case in CASES)
    points = tuple(
        (case, one)
        for case, prediction in predictions
        for one in points_of_arm(evidence, EXPERIMENT, prediction, case=case)
    )
    at = _at_most_ranks(points)
    better = ratio_of(at[1].speeds, at[0].speeds) if at and at[0].speeds and at[1].speeds else None
    works = (case_work(evidence, case, prediction) for case, prediction in predictions)
    return Sizes(
        points=points,
        gpus=tuple((case, one) for case in CASES for one in gpu_points(evidence, EXPERIMENT, case=case)),
        works=tuple(one for one in works if one is not None),
        predictions=predictions,
        better=better,
        at=at,
        hole=why_no_scaling(evidence, EXPERIMENT),
    )


def _at_most_ranks(points: Sequence[tuple[str, RanksPoint]]) -> tuple[RanksPoint, RanksPoint] | None:
    """Returns both cases at the most ranks that both have, measured ones before predicted ones."""
    for mark in ("measured", "predicted"):
        by = {(case, one.ranks): one for case, one in points if one.mark == mark and one.speeds}
        both = sorted(ranks for case, ranks in by if case == CASES[0] and (CASES[1], ranks) in by)
        if both:
            return by[CASES[0], both[-1]], by[CASES[1], both[-1]]
    return None


def _table(evidence: Evidence, found: Sizes) -> Table:
    columns = (
        Column("Case", numeric=False),
        Column("DIM × DEPTH", numeric=False),
        Column("#GPUs (ranks)"),
        Column("Time/step", "ms"),
        Column("Speedup"),
        Column("Efficiency", "%"),
    )
    rows = (*found.points, *found.gpus)
    groups = ((0, "On this machine"), (len(found.points), gpu_heading(evidence))) if found.gpus and found.points else ()
    notes = [*refusals(evidence, EXPERIMENT), *told(evidence, found.predictions, said_before=True)]
    notes += [] if found.points else [found.hole]
    caption = f"{setting(evidence, EXPERIMENT, but=('DEPTH', 'ranks'))} {EQUAL}"
    if found.better is not None and found.at is not None:
        caption += (
            f" On {ranks_phrase(found.at[0].ranks)} the large model is {said_with_interval(found.better_cell)} times "
            "as efficient as the small one."
        )
    return Table(
        TABLE,
        "A small and a large model",
        columns,
        tuple(_row(case, one) for case, one in rows),
        (*notes, *([f"{GPU_NOTE}{_gpu_words(found)}"] if found.gpus else [])),
        tuple(one.runs for _, one in rows),
        caption=caption,
        groups=groups,
    )


def _row(case: str, one: RanksPoint) -> tuple[Cell, ...]:
    return (text_cell(case, mark=one.mark), text_cell(one.size, mark=one.mark), *one.cells)


def _which(evidence: Evidence, found: Sizes) -> Answer:
    """Returns the answer, by the interval of the ratio of both efficiencies."""
    if found.better is None or found.at is None:
        return _unanswered(WHICH, found)
    small, large = found.at
    predicted = small.mark == "predicted"
    word = equivalent(found.better, MARGIN)
    verdict = _which_verdict(found, word)
    number = (
        f"On {ranks_phrase(small.ranks)} the large model has {said(large.efficiency, '%')} efficiency and the small "
        f"one {said(small.efficiency, '%')}{' (predicted)' if predicted else ''}, "
        f"{said_with_interval(found.better_cell)} times as much."
    )
    slow = [case for case, one in zip(CASES, found.at, strict=True) if one.speeds and one.speeds.high < 1]
    if len(slow) == 2:
        practice = f"DDP pays for neither of them here: {ranks_phrase(small.ranks)} are slower than one."
    elif slow:
        practice = f"For the {slow[0]} model {ranks_phrase(small.ranks)} are slower than one."
    else:
        practice = ""
    why = ""
    if word != "different" or found.better.value < 1:
        why = "The sheet expects the large one, whose computation dominates." + _expected_words(found)
    gpus = _gpu_pair(found)
    practice = f"{practice} {gpus}".strip()
    return Answer(
        ROW,
        WHICH,
        verdict,
        f"{found.hole} {number}".strip() if predicted else number,
        why,
        practice,
        decided=f"The interval of the ratio of both efficiencies: above or below 1, within {MARGIN:.0%} of it, or "
        "none of these.",
        rests_on=(TABLE, WORK_TABLE) if found.works else (TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[WHICH],
    )


def _which_verdict(found: Sizes, word: Equivalence) -> str:
    if word == "equal within margin":
        return "In neither: they are equal within 10 %."
    if word == "cannot tell":
        counts = "; the counts lead one to expect the large one" if _fewer_bytes(found) else ""
        return f"It cannot be told from these runs{counts}."
    return f"In the {'large' if found.better and found.better.value > 1 else 'small'} one."


def _fewer_bytes(found: Sizes) -> bool:
    """Returns True if, by the counts, the large model exchanges fewer bytes for each operation."""
    counted = {one.case: one.per_flop.number for one in found.works}
    small, large = counted.get("small"), counted.get("large")
    return small is not None and large is not None and small > (1 + MARGIN / 10) * large


def _expected_words(found: Sizes) -> str:
    """A sentence on what the counts predict, for times that do not show it or show the opposite."""
    if not _fewer_bytes(found):
        return " Here bytes and operations grow together with the weights."
    small, large = found.works
    return (
        f" Counted, a rank exchanges {said(large.per_flop)} bytes for 1000 flop of the large model and "
        f"{said(small.per_flop)} for the small one: at equal rates the large one would spend less of its step on "
        "communication."
    )


def _gpus_differ(found: Sizes) -> tuple[RanksPoint, RanksPoint, Estimate] | None:
    """The small and the large model on the most GPUs, and how many times as efficient the large one is."""
    last = {case: one for case, one in found.gpus if one.speeds}
    small, large = (last.get(case) for case in CASES)
    if small is None or large is None or small.speeds is None or large.speeds is None or small.ranks != large.ranks:
        return None
    return small, large, ratio_of(large.speeds, small.speeds)


def _gpu_words(found: Sizes) -> str:
    """A sentence for the table's note on how efficient both models would be on GPUs; empty without such rows."""
    differ = _gpus_differ(found)
    if differ is None:
        return ""
    small, _, change = differ
    return (
        f" On {small.ranks} GPUs the large model would be {said_with_interval(estimate_cell(change))} times as "
        "efficient as the small one."
    )


def _gpu_pair(found: Sizes) -> str:
    """A sentence on both models on GPUs, by the interval of the ratio of their efficiencies, as for measured ranks."""
    differ = _gpus_differ(found)
    if differ is None:
        return ""
    small, large, change = differ
    told = (
        f"On {small.ranks} GPUs of the kind in the table efficiency would be {said(large.efficiency, '%')} for "
        f"{large.size} and {said(small.efficiency, '%')} for {small.size} (predicted)"
    )
    times = f"{said_with_interval(estimate_cell(change))} times as much"
    word = equivalent(change, MARGIN)
    if word == "cannot tell":
        return f"{told}; {times} does not tell which is more efficient there."
    if word == "equal within margin":
        return f"{told}: equal within 10 %."
    return f"{told}, {times}{', as' if change.value > 1 else ', against what'} the sheet expects."


def _why(evidence: Evidence, found: Sizes) -> Answer:
    """Returns the answer, by counted bytes per operation, and the share of communication."""
    works = {one.case: one for one in found.works}
    small, large = works.get("small"), works.get("large")
    why = (
        "Bytes and operations both grow with the weights, so size alone changes nothing. But the first layer's "
        "input needs no gradient, which saves one matrix product: one of six with two layers, one of twenty-four "
        "with eight."
    )
    if small is None or large is None or small.per_flop.number is None or large.per_flop.number is None:
        missing = "No inspected run counted the operations of both cases."
        return Answer(ROW, WHY, FIXED_COSTS, missing, why, rests_on=(TABLE,), hint=HINTS[WHY])
    verdict = _why_verdict(found, small, large)
    number = f"Counted: {said(small.per_flop)} bytes per 1000 flop for small, {said(large.per_flop)} for large."
    return Answer(
        ROW,
        WHY,
        verdict,
        number,
        why,
        _rates_words(evidence, small, large),
        decided="Bytes per operation differ where their counted ratio is above 1.01.",
        rests_on=(WORK_TABLE, *((REACHED,) if small.of_peak.number is not None else ())),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[WHY],
    )


def _why_verdict(found: Sizes, small: CaseWork, large: CaseWork) -> str:
    """The verdict: what was counted, and that it makes a difference only if a difference was measured."""
    if not _fewer_bytes(found):
        return "Both exchange the same bytes for each operation; what differs are rates and fixed costs."
    more = "The small model exchanges more bytes for each operation"
    word = equivalent(found.better, MARGIN) if found.better else "cannot tell"
    if word != "different":
        return f"{more}, but not by so much that it shows in these runs."
    if found.better and found.better.value < 1:
        return f"{more}, and is the more efficient one all the same: rates and fixed costs outweigh the bytes."
    return f"{more}{_rate_reason(small, large)}."


def _rate_reason(small: CaseWork, large: CaseWork) -> str:
    """The causes other than bytes for the models' difference, by the intervals that compare their rates and shares."""
    if small.rates is None or large.rates is None:
        return ", and fixed costs weigh more in its short step"
    if equivalent(ratio_of(small.rates, large.rates), MARGIN) != "different":
        return ""
    if small.rates.value < large.rates.value:
        return ", but fixed costs make it compute at a lower rate"
    apart = (
        small.shares is not None
        and large.shares is not None
        and propagate(lambda one, other: one - other, small.shares, large.shares).low > 0
    )
    return ", and it computes them at a higher rate" + (
        ", which leaves communication a larger part of its step" if apart else ""
    )


def _rates_words(evidence: Evidence, small: CaseWork, large: CaseWork) -> str:
    """A sentence with both rates, and the reason if they differ."""
    if small.rate.number is None or large.rate.number is None or small.rates is None or large.rates is None:
        return ""
    told = (
        f"Without communication the large model's step reaches {said(large.rate, 'GFLOP/s')} and the small one's "
        f"{said(small.rate, 'GFLOP/s')}"
    )
    if equivalent(ratio_of(small.rates, large.rates), MARGIN) != "different":
        return f"{told}."
    if small.rates.value < large.rates.value:
        return f"{told}: what a step costs whatever its size weighs less in the longer one."
    if on_gpus(evidence):
        return f"{told}."
    return (
        f"{told}: {said(large.size, 'MB')} of weights, and as many of gradients, fit a core's caches less well "
        f"than {said(small.size, 'MB')}, and every step reads all of them."
    )


def _when(evidence: Evidence, found: Sizes) -> Answer:
    """Returns the answer, by the share of the step that is communication, at the samples per rank that were run."""
    known = [one for one in found.works if one.share.number is not None]
    if not known:
        return _unanswered(WHEN, found)
    shares = listed([f"{said(one.share, '%')} of the {one.case} model's step" for one in known])
    own = known[0]
    number = (
        f"With {said(own.samples)} samples per rank on {ranks_phrase(own.ranks)} communication "
        f"{'would be' if own.mark == 'predicted' else 'is'} {shares}."
    )
    over = [one for one in known if (one.shares.low if one.shares else (one.share.number or 0) / 100) > 0.5]
    under = [one for one in known if (one.shares.high if one.shares else (one.share.number or 0) / 100) < 0.5]
    if len(over) == len(known):
        verdict = "Here already: more than half of a step is communication."
    elif over:
        verdict = f"Here already for the {listed([one.case for one in over])} model."
    elif len(under) == len(known):
        verdict = "With fewer samples per rank than here, where computing still takes longer."
    elif all((one.share.number or 0.0) < 50 for one in known):
        verdict = "With fewer samples per rank than here, as far as these runs can tell."
    else:
        verdict = "At about as many samples per rank as here, where both take about equally long."
    why = (
        "The bytes are fixed by the weights, while computing shrinks with the samples of a rank. So communication "
        "takes over where the global batch is spread over more ranks, the link is slower, or the device is faster."
    )
    practice = "More samples per rank, or several micro-batches before one exchange, make its share smaller."
    return Answer(
        ROW,
        WHEN,
        verdict,
        number,
        why,
        practice,
        decided="The bottleneck is what takes more than half of the step: the interval of the share above, below "
        "or across 50 %.",
        rests_on=(WORK_TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
        hint=HINTS[WHEN],
    )


def _unanswered(question: str, found: Sizes, why: str = "") -> Answer:
    reason = why or found.hole or "Both cases are needed on the same number of ranks, with and without communication."
    return Answer(
        ROW, question, "This cannot be answered from these runs.", reason, rests_on=(TABLE,), hint=HINTS[question]
    )
