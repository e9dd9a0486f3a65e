"""H1.3: communication against computation, for a small and a large model on 1, 2 and 4 ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import link_points
from scalewise.analysis.ratio import equivalent, ratio_of
from scalewise.analysis.utilisation import Utilisation
from scalewise.course.homework import Question
from scalewise.course.homework1.comparable_rows import (
    EQUAL,
    MARGIN,
    REMOVED,
    on_gpus,
    parameters,
    price,
    row_at,
    scaling_rows,
    shaken_by,
    unanswered,
    volume,
    why_no_scaling,
)
from scalewise.course.homework1.rank_points import (
    GPU_NOTE,
    ArmPrediction,
    RanksPoint,
    gpu_heading,
    gpu_points,
    points_of_arm,
    predicted_ranks,
    told,
)
from scalewise.course.measured_arms import COURSE_LEVEL, refusals
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell, estimate_cell, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, BarPlot, Block, Cell, Column, Figure, Mark, Part, Section, Table
from scalewise.units import listed, ranks_phrase

ORDER, EXPERIMENT = 30, "model-size"
TABLE, WORK_TABLE, REACHED = "h1-3-model-size", "h1-3-work", "h1-3-reached"
NEEDED = "Both cases are needed on the same number of ranks, with and without communication."
WHICH = Question(
    "H1.3",
    "In which case is DDP more efficient?",
    "the efficiencies of both cases on the same number of ranks, and their ratio",
)
WHY = Question("H1.3", "Why?", "bytes per flop, computing and communication of both cases")
WHEN = Question(
    "H1.3",
    "When does communication become the bottleneck?",
    "the share of the step that is communication, and what it would be with other batches",
)
CASES = ("small", "large")
FLOAT_BYTES = 4
FIXED_COSTS = "What a step costs whatever its size weighs less in the longer step of the large model."


@dataclass(frozen=True)
class CaseWork:
    """The work of one rank in a step of a case, at the largest available number of ranks."""

    case: str
    ranks: int
    mark: Mark
    samples: Cell  # per rank
    flops: Cell  # GFLOP, counted
    size: Cell  # MB all-reduced
    per_flop: Cell  # bytes per 1000 flop
    computing: Cell  # ms
    communication: Cell  # ms
    share: Cell  # % of the step that is communication
    rate: Cell  # GFLOP/s while computing
    of_peak: Cell  # %
    link_rate: Cell  # GB/s while communicating
    of_link: Cell  # %
    shares: Estimate | None  # communication over the step
    rates: Estimate | None  # flop/s while computing


def case_work(evidence: Evidence, case: str, prediction: ArmPrediction) -> CaseWork | None:
    """Returns the work in a case as measured at the most ranks, else from one rank and the prediction for two."""
    row = next(reversed(scaling_rows(evidence, EXPERIMENT, case=case)), None)
    if row is None or row.step_seconds is None or not row.samples_per_step:
        return None
    bare = row_at(scaling_rows(evidence, EXPERIMENT, change=REMOVED, case=case), row.ranks)
    mark: Mark = "measured"
    ranks, size = row.ranks, volume(row)[1]
    computing = bare.step_seconds.at(COURSE_LEVEL) if bare and bare.step_seconds else None
    communication, share, shares = price(row), None, None
    if communication is not None:
        shares = propagate(lambda part, whole: part / whole, communication, row.step_seconds.at(COURSE_LEVEL))
    if row.ranks == 1:
        first, count = next(iter(prediction.rows), None), parameters(evidence, row)
        if first is None or count is None:
            return None
        ranks, mark, size, shares = first.ranks, "predicted", FLOAT_BYTES * count, None
        sent = first.communication_share
        computing, communication = first.step.times(1 - sent), first.step.times(sent)
        share = communication.value / first.step.value
    counted = _counted(evidence, case)
    at = next((count for count in (row.ranks, 1) if count in counted), 0)
    use, flops = counted.get(at), None
    if use is not None and use.flops_per_step:
        flops = use.flops_per_step * at / ranks  # operations grow with the samples, and a rank has its part of them
    rate = computing.through(lambda seconds: flops / seconds) if computing and flops else None
    peak = use.peak_flops_per_second if use else None
    link = communication.through(lambda seconds: size / seconds) if communication and communication.low > 0 else None
    best = _best_link(evidence, ranks)
    return CaseWork(
        case=case,
        ranks=ranks,
        mark=mark,
        samples=count_cell(round(row.samples_per_step / ranks)),
        flops=number_cell(flops, 1e-9, why_empty="not counted: no run was inspected"),
        size=number_cell(size or None, 1e-6, why_empty="nothing was exchanged"),
        per_flop=number_cell(1e3 * size / flops if flops and size else None, why_empty="not counted"),
        computing=estimate_cell(computing, 1e3, mark=mark, why_empty="the step without communication was not measured"),
        communication=estimate_cell(communication, 1e3, mark=mark, why_empty="not measured"),
        share=estimate_cell(shares, 100) if shares else number_cell(share, 100, mark=mark, why_empty="not measured"),
        rate=estimate_cell(rate, 1e-9, mark=mark, why_empty="not counted"),
        of_peak=number_cell(rate.value / peak if rate and peak else None, 100, mark=mark, why_empty="no peak measured"),
        link_rate=estimate_cell(link, 1e-9, mark=mark, why_empty="not measured"),
        of_link=number_cell(link.value / best if link and best else None, 100, mark=mark, why_empty="no link measured"),
        shares=shares,
        rates=rate,
    )


def _counted(evidence: Evidence, case: str) -> dict[int, Utilisation]:
    """Returns the inspected runs of the case that counted the operations of a step, by their ranks."""
    experiment = evidence.experiment(EXPERIMENT)
    found: dict[int, Utilisation] = {}
    for one in experiment.utilisation if experiment else ():
        run = evidence.run(one.run)
        if run is not None and run.spec.axes.get("case") == case and one.flops_per_step:
            found.setdefault(run.spec.world_size, one)
    return found


def _best_link(evidence: Evidence, ranks: int) -> float | None:
    """Returns the most bytes per second that a single all-reduce reached among so many ranks."""
    runs = [run for run in evidence.loaded.runs if run.spec.experiment == "link" and not run.spec.oversubscribed]
    points = [point for run in runs for point in link_points(run) if point.ranks == ranks]
    return max((point.bytes / point.seconds for point in points), default=None)


def work_table(works: Sequence[CaseWork]) -> Table:
    named: tuple[tuple[str, str], ...] = (
        ("samples", "samples"),
        ("flops", "operations (GFLOP)"),
        ("size", "all-reduced (MB)"),
        ("per_flop", "bytes / 1000 flop"),
        ("computing", "computing (ms)"),
        ("communication", "communication (ms)"),
        ("share", "share of the step (%)"),
        ("rate", "computes at (GFLOP/s)"),
        ("of_peak", "of the peak (%)"),
        ("link_rate", "bytes / time (GB/s)"),
        ("of_link", "of the fastest (%)"),
    )
    rows = tuple((text_cell(words), *(getattr(one, name) for one in works)) for name, words in named)
    kept = tuple(row for row in rows if any(cell.number is not None for cell in row[1:]))
    columns = (Column(f"One rank of {works[0].ranks}", numeric=False), *(Column(one.case) for one in works))
    caption = (
        "Computing: the step without communication, optimizer included. Communication: what it adds to the step; "
        "backward hides a part, so bytes over that time are not the link's rate. Operations are counted as torch "
        "carries them out (matrix products; a multiply-add is two). Peak: matrix products alone, measured. Fastest: "
        "the fastest all-reduce of any size, alone."
        if works[0].mark == "measured"
        else "Predicted from one GPU and the data sheet of the link; operations are counted on one GPU."
    )
    return Table(WORK_TABLE, "What a rank computes and exchanges", columns, kept, caption=caption)


def reached_figure(evidence: Evidence, works: Sequence[CaseWork]) -> Figure | None:
    """Returns a figure of how much is reached of what the device and the link can do."""
    bars = [(f"{one.case}, computing", one.of_peak, one.mark) for one in works if one.of_peak.number is not None]
    bars += [(f"{one.case}, exchange", one.of_link, one.mark) for one in works if one.of_link.number is not None]
    if len(bars) < 2:
        return None
    what = "GPU" if on_gpus(evidence) else "core"
    plot = BarPlot(
        tuple(name for name, _, _ in bars),
        (Part("reached", tuple(cell.number or 0.0 for _, cell, _ in bars)),),
        "reached, % of what was measured as possible",
        marks=tuple(mark for _, _, mark in bars),
    )
    caption = (
        f"Computing: GFLOP/s against matrix products alone on one {what}. Exchange: bytes over the time they add, "
        "against the fastest single all-reduce of the same ranks."
    )
    return Figure(REACHED, "Reached against possible", caption, plot, 0.5)


@dataclass(frozen=True)
class Sizes:
    """The data for H1.3."""

    points: tuple[tuple[str, RanksPoint], ...]  # (case, row)
    gpus: tuple[tuple[str, RanksPoint], ...]
    works: tuple[CaseWork, ...]
    predictions: tuple[tuple[str, ArmPrediction], ...]
    better: Estimate | None  # efficiency of large over that of small, on the ranks of `at`
    at: tuple[RanksPoint, RanksPoint] | None  # small and large on as many ranks
    missing_reason: str

    @property
    def on_gpus(self) -> tuple[RanksPoint, RanksPoint, Estimate] | None:
        """The small and the large model on the most GPUs, and how many times as efficient the large one is."""
        last = {case: one for case, one in self.gpus if one.speeds}
        small, large = (last.get(case) for case in CASES)
        if not small or not large or not small.speeds or not large.speeds or small.ranks != large.ranks:
            return None
        return small, large, ratio_of(large.speeds, small.speeds)

    @property
    def better_cell(self) -> Cell:
        """The efficiency of the large model over that of the small one."""
        return estimate_cell(self.better)


def build(evidence: Evidence) -> Section:
    """Builds the section: tables, the reached rates, answers."""
    found = sizes(evidence)
    blocks: list[Block] = [_table(evidence, found)]
    blocks += [work_table(found.works)] if found.works else []
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
        missing_reason=why_no_scaling(evidence, EXPERIMENT),
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
    notes += [] if found.points else [found.missing_reason]
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
        tuple((text_cell(case, mark=one.mark), text_cell(one.size, mark=one.mark), *one.cells) for case, one in rows),
        (*notes, *([f"{GPU_NOTE}{_gpu_words(found)}"] if found.gpus else [])),
        tuple(one.runs for _, one in rows),
        caption=caption,
        groups=groups,
    )


def _which(evidence: Evidence, found: Sizes) -> Answer:
    """Returns the answer, by the interval of the ratio of both efficiencies."""
    if found.better is None or found.at is None:
        return unanswered(WHICH, found.missing_reason or NEEDED, TABLE)
    small, large = found.at
    predicted = small.mark == "predicted"
    word = equivalent(found.better, MARGIN)
    if word == "equal within margin":
        verdict = "In neither: they are equal within 10 %."
    elif word == "cannot tell":
        counts = "; the counts lead one to expect the large one" if _fewer_bytes(found) else ""
        verdict = f"It cannot be told from these runs{counts}."
    else:
        verdict = f"In the {'large' if found.better.value > 1 else 'small'} one."
    number = (
        f"On {ranks_phrase(small.ranks)} the large model has {said(large.efficiency, '%')} efficiency and the small "
        f"one {said(small.efficiency, '%')}{' (predicted)' if predicted else ''}, "
        f"{said_with_interval(found.better_cell)} times as much."
    )
    slow = [case for case, one in zip(CASES, found.at, strict=True) if one.speeds and one.speeds.high < 1]
    practice = why = ""
    if slow:
        which = "DDP pays for neither of them here:" if len(slow) == 2 else f"For the {slow[0]} model"
        practice = f"{which} {ranks_phrase(small.ranks)} are slower than one."
    if word != "different" or found.better.value < 1:
        why = "The sheet expects the large one, whose computation dominates." + _expected_words(found)
    return WHICH.answer(
        verdict,
        f"{found.missing_reason} {number}".strip() if predicted else number,
        why,
        f"{practice} {_gpu_pair(found)}".strip(),
        decided=f"The interval of the ratio of both efficiencies: above or below 1, within {MARGIN:.0%} of it, or "
        "none of these.",
        rests_on=(TABLE, WORK_TABLE) if found.works else (TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


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


def _gpu_words(found: Sizes) -> str:
    """A sentence for the table's note on how efficient both models would be on GPUs; empty without such rows."""
    if found.on_gpus is None:
        return ""
    small, _, change = found.on_gpus
    times = said_with_interval(estimate_cell(change))
    return f" On {small.ranks} GPUs the large model would be {times} times as efficient as the small one."


def _gpu_pair(found: Sizes) -> str:
    """A sentence on both models on GPUs, by the interval of the ratio of their efficiencies, as for measured ranks."""
    if found.on_gpus is None:
        return ""
    small, large, change = found.on_gpus
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
        return WHY.answer(FIXED_COSTS, missing, why, rests_on=(TABLE,))
    verdict = _why_verdict(found, small, large)
    number = f"Counted: {said(small.per_flop)} bytes per 1000 flop for small, {said(large.per_flop)} for large."
    return WHY.answer(
        verdict,
        number,
        why,
        _rates_words(evidence, small, large),
        decided="Bytes per operation differ where their counted ratio is above 1.01.",
        rests_on=(WORK_TABLE, *((REACHED,) if small.of_peak.number is not None else ())),
        shaken_by=shaken_by(evidence, EXPERIMENT),
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
    told = ", and it computes them at a higher rate"
    if small.shares is None or large.shares is None:
        return told
    apart = propagate(lambda one, other: one - other, small.shares, large.shares)
    return f"{told}, which leaves communication a larger part of its step" if apart.low > 0 else told


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
        return unanswered(WHEN, found.missing_reason or NEEDED, TABLE)
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
    return WHEN.answer(
        verdict,
        number,
        why,
        practice,
        decided="The bottleneck is what takes more than half of the step: the interval of the share above, below "
        "or across 50 %.",
        rests_on=(WORK_TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )
