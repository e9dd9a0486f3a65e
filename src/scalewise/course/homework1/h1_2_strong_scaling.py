"""H1.2: strong scaling: is the speedup linear, where does efficiency drop, and which parts of a step explain it."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import ComputeLine, LinkFit
from scalewise.analysis.ratio import equivalent
from scalewise.analysis.summary import ArmRow
from scalewise.course.gpus import told_recordings, told_source
from scalewise.course.homework import Question, Told
from scalewise.course.homework1.comparable_rows import (
    EQUAL,
    FIGURE_WIDTH,
    MARGIN,
    REMOVED,
    again,
    agreeing_rows,
    batch_of,
    computing,
    on_gpus,
    row_at,
    scaling_rows,
    shaken_by,
    unanswered,
    why_no_scaling,
)
from scalewise.course.homework1.h1_2_model import (
    ANATOMY,
    MODEL,
    MODEL_TABLE,
    ModelParts,
    line_of,
    link_of,
    model_parts,
    model_parts_figure,
    model_table,
)
from scalewise.course.homework1.h1_4_devices import STEP, ddp_steps, hidden_text
from scalewise.course.homework1.rank_points import (
    NO_BASE,
    ArmPrediction,
    RanksPoint,
    gpu_heading,
    gpu_points,
    points_of_arm,
    predicted_ranks,
    speedup_series,
    told,
)
from scalewise.course.measured_arms import refusals, step_ratio
from scalewise.course.page_pieces import setting
from scalewise.report.cells import empty_cell, estimate_cell, said, said_with_interval
from scalewise.report.document import Answer, Block, Cell, Column, Figure, LinePlot, PlotSeries, Section, Table
from scalewise.units import counted, listed, ranks_phrase

ORDER = 20
EXPERIMENT = "strong-scaling"
TABLE, SPEEDUP = "h1-2-strong-scaling", "h1-2-speedup"
NO_SPEEDUP = "There is no speedup to compare."
NEEDED_FOR_WHY = "The runs on one rank with batches 32 to 256, or those without communication, are missing."
LINEAR = Question("H1.2", "Is the speedup linear?", "the speedups of the table, and the number of ranks")
DROP = Question("H1.2", "Where does efficiency drop?", "the column efficiency, from row to row")
WHY = Question("H1.2", "What explains it, in numbers?", "the parts of a step in the table of the model")
WORDS = {2: "two", 4: "four", 8: "eight"}
FIXED = "The fixed part of a step, which is as long on every rank however many there are."
BATCHES, BATCH_TABLE = "batch-scaling", "h1-5b-batch"  # experiment and table of H1.5B, with one rank at several batches
GOOD = 0.9  # efficiency below which ranks are said to be wasted


@dataclass(frozen=True)
class StrongScaling:
    """The data for H1.2; a field is empty if its data is not available."""

    here: tuple[RanksPoint, ...]
    gpus: tuple[RanksPoint, ...]
    free: dict[int, Cell]  # ranks -> speedup of the same steps without communication
    sharing: tuple[tuple[ArmRow, Cell, Cell], ...]  # oversubscribed rows: step, step over that of ranks that fit
    parts: tuple[ModelParts, ...]
    line: ComputeLine | None
    link: LinkFit | None
    prediction: ArmPrediction
    missing_reason: str  # why nothing was compared over ranks, as a sentence

    @property
    def measured(self) -> tuple[RanksPoint, ...]:
        """The rows of several ranks that each have a core or a GPU."""
        return tuple(one for one in self.here if one.ranks > 1 and one.mark == "measured" and one.speeds)

    @property
    def predicted(self) -> tuple[RanksPoint, ...]:
        """The rows of several ranks that this machine does not have."""
        return tuple(one for one in self.here if one.ranks > 1 and one.mark == "predicted" and one.speeds)


def build(evidence: Evidence) -> Section:
    """Builds the section: the table, what it answers, the model, figures, and what they explain."""
    found = strong_scaling(evidence)
    blocks: list[Block] = [_table(evidence, found), _linear(evidence, found), _drop(evidence, found)]
    if found.parts and found.line is not None:
        blocks += [MODEL, model_table(found.parts, found.line, found.link)]
    blocks += [one for one in (_speedup_figure(found), model_parts_figure(found.parts)) if one is not None]
    return Section("h1-2", "Strong scaling", (*blocks, _why(evidence, found)))


def strong_scaling(evidence: Evidence) -> StrongScaling:
    """Returns rows, the model's parts, and the effect of ranks that share a core."""
    rows = scaling_rows(evidence, EXPERIMENT)
    prediction = predicted_ranks(evidence, EXPERIMENT)
    line, link = line_of(evidence, rows), link_of(evidence, rows)
    return StrongScaling(
        here=points_of_arm(evidence, EXPERIMENT, prediction),
        gpus=gpu_points(evidence, EXPERIMENT),
        free=_free(evidence),
        sharing=tuple(_sharing(evidence, rows)),
        parts=tuple(model_parts(rows, line, link)) if line is not None else (),
        line=line,
        link=link,
        prediction=prediction,
        missing_reason=why_no_scaling(evidence, EXPERIMENT),
    )


def _free(evidence: Evidence) -> dict[int, Cell]:
    rows = scaling_rows(evidence, EXPERIMENT, change=REMOVED)
    one = row_at(rows, 1)
    return {
        row.ranks: estimate_cell(step_ratio(evidence, one, row), why_empty=NO_BASE) for row in rows if row.ranks > 1
    }


def _sharing(evidence: Evidence, rows: tuple[ArmRow, ...]) -> list[tuple[ArmRow, Cell, Cell]]:
    base = rows[-1] if rows else None
    found = []
    for row in agreeing_rows(evidence, EXPERIMENT):
        times = step_ratio(evidence, row, base) if row.mark == "oversubscribed" else None
        if times is not None:
            found.append((row, estimate_cell(row.step_seconds, 1e3), estimate_cell(times)))
    return found


def _table(evidence: Evidence, found: StrongScaling) -> Table:
    columns = (
        Column("#GPUs (ranks)"),
        Column("Time/step", "ms"),
        Column("Speedup"),
        Column("Efficiency", "%"),
        Column("Speedup without communication"),
    )
    rows = (*found.here, *found.gpus)
    groups = ((0, "On this machine"), (len(found.here), gpu_heading(evidence))) if found.gpus else ()
    base = ["Speedup without communication: against one rank without it."] if found.free else []
    notes = [*_sharing_notes(found), *base, *refusals(evidence, EXPERIMENT), *told(evidence, [("", found.prediction)])]
    return Table(
        TABLE,
        "Strong scaling: the global batch stays 64",
        columns,
        tuple((*one.cells, _free_cell(found, one)) for one in rows),
        (*notes, *(_gpu_notes(evidence) if found.gpus else [])),
        tuple(one.runs for one in rows),
        caption=f"{setting(evidence, EXPERIMENT, but=('ranks',))} {EQUAL}",
        groups=groups,
    )


def _gpu_notes(evidence: Evidence) -> list[str]:
    return [" ".join(filter(None, (told_source(evidence), told_recordings(evidence, EXPERIMENT))))]


def _free_cell(found: StrongScaling, one: RanksPoint) -> Cell:
    if one.mark == "measured" and one.ranks in found.free and one in found.here:
        return found.free[one.ranks]
    return empty_cell("one rank sends nothing to others" if one.ranks == 1 else "not measured", one.mark)


def _sharing_notes(found: StrongScaling) -> list[str]:
    """Returns notes on the effect of more ranks than cores, which is not scaling."""
    fit = max((one.ranks for one in found.here if one.mark == "measured" and one.runs), default=1)
    return [
        f"{row.ranks} ranks on {counted(fit, 'core')} took {said(step, 'ms')}, {said(times)} times the "
        f"step of {ranks_phrase(fit)}: each core computes for several ranks in turn, and every message waits for a "
        "rank that is not running at that moment. This says nothing about scaling, so it has no row."
        for row, step, times in found.sharing
    ]


def _speedup_figure(found: StrongScaling) -> Figure | None:
    first = [one for one in found.here if one.ranks == 1 and one.mark == "measured"]
    several = [*found.measured, *found.predicted]
    if not first or not several:
        return None
    most = max(one.ranks for one in (*several, *found.gpus))
    ticks = tuple(float(count) for count in (1, 2, 4, 8) if count <= most)
    series = [PlotSeries("ideal", ticks, ticks, style="ideal")]
    if found.measured:
        series.append(speedup_series("measured", found.measured, first=True))
    free = [(ranks, cell) for ranks, cell in found.free.items() if cell.number is not None]
    if free:
        series.append(
            PlotSeries(
                "no communication", (1.0, *(float(n) for n, _ in free)), (1.0, *(c.number or 0.0 for _, c in free))
            )
        )
    if found.predicted:
        series.append(speedup_series("predicted", found.predicted))
    if any(one.speeds for one in found.gpus):
        series.append(speedup_series("GPUs", found.gpus, first=True))
    plot = LinePlot("ranks", "speedup", tuple(series), log_x=True, log_y=True, x_ticks=ticks)
    return Figure(
        SPEEDUP,
        "Speedup over one rank",
        "Lines at the points: 95 % intervals. Both axes are logarithmic.",
        plot,
        FIGURE_WIDTH,
    )


def _linear(evidence: Evidence, found: StrongScaling) -> Answer:
    """Returns the answer: linear within the margin, slower than one rank, unclear, or faster but not linear."""
    last = (found.measured or found.predicted or found.gpus[1:] or (None,))[-1]
    if last is None or last.speeds is None:
        return unanswered(LINEAR, found.missing_reason or NO_SPEEDUP, TABLE)
    speeds, count = last.speeds, ranks_phrase(last.ranks)
    verdict = _linear_verdict(speeds, last.ranks)
    what = "would be" if last.mark == "predicted" else "is"
    number = (
        f"On {count} the speedup {what} {said_with_interval(last.speedup)}"
        f"{' (predicted)' if last.mark == 'predicted' else ''}; {last.ranks} would be linear."
    )
    if not found.measured:
        number = f"{found.missing_reason} {number}"
    why = (
        "Only the computing of a sample is divided among ranks. What a step costs whatever its batch is paid by "
        "each of them, and the exchange of gradients comes on top."
    )
    return LINEAR.answer(
        verdict,
        number,
        why,
        _further(found),
        decided=f"Linear: the whole interval of speedup / {last.ranks} lies within {MARGIN:.0%} of 1. Slower or faster "
        "than one rank: the interval of the speedup, from runs made in turns, lies below or above 1.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _linear_verdict(speeds: Estimate, ranks: int) -> Told:
    if equivalent(speeds.times(1 / ranks), MARGIN) == "equal within margin":
        return "Yes, within 10 %."
    if speeds.high < 1:
        return "No", f"{ranks} ranks are slower than one."
    if speeds.high >= ranks:
        return "It cannot be told from these runs."
    if speeds.low <= 1:
        return f"No, and whether {ranks} ranks are faster than one at all cannot be told."
    return "No", "it grows, but by less than the number of ranks."


def _further(found: StrongScaling) -> str:
    """Returns a sentence on what more ranks, or GPUs, would do."""
    said_of = []
    if found.measured and found.predicted:
        said_of.append(f"{ranks_phrase(found.predicted[-1].ranks)} would reach {said(found.predicted[-1].speedup)}")
    gpus = [one for one in found.gpus if one.ranks > 1]
    if gpus:
        verb = "" if said_of else "would reach "
        said_of.append(f"{gpus[-1].ranks} GPUs of the kind in the table {verb}{said(gpus[-1].speedup)}")
    return f"By prediction {' and '.join(said_of)}." if said_of else ""


def _drop(evidence: Evidence, found: StrongScaling) -> Answer:
    """Returns the answer: the first number of ranks whose efficiency has its upper end below GOOD."""
    several = [one for one in (*found.measured, *found.predicted) if one.efficiency.number is not None]
    if not several:
        return unanswered(DROP, found.missing_reason or NO_SPEEDUP, TABLE)
    figures = listed(
        [
            f"{said(one.efficiency, '%')} on {one.ranks}{' (predicted)' if one.mark == 'predicted' else ''}"
            for one in several
        ]
    )
    first = next((one for one in several if (one.efficiency.high or 0.0) < 100 * GOOD), None)
    if first is None:
        verdict, why = "Nowhere that these runs show: no efficiency lies below 90 % with its whole interval.", ""
    else:
        before = [one for one in several if one.ranks < first.ranks]
        fewer = WORDS.get(before[-1].ranks, before[-1].ranks) if before else "one"
        verdict = f"Between {fewer} and {WORDS.get(first.ranks, first.ranks)} ranks{' already' if not before else ''}."
        why = (
            "The second rank brings the all-reduce of all gradients, whose bytes do not shrink with the number of "
            "ranks, while each rank's computing does."
            if not before
            else "Each rank computes less and less, and exchanges as many bytes as before."
        )
    number = f"Efficiency is {figures} ranks; one rank has 100 %."
    return DROP.answer(
        verdict,
        number,
        why,
        decided=f"The first number of ranks whose efficiency has the upper end of its interval below {GOOD:.0%}.",
        rests_on=(TABLE,),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _why(evidence: Evidence, found: StrongScaling) -> Answer:
    """Returns the answer: the larger of two losses against T(1)/N, communication or the fixed part."""
    part = next((one for one in reversed(found.parts) if one.ranks > 1 and one.communication), None)
    if part is None or part.communication is None:
        return _why_predicted(evidence, found)
    unshared = part.fixed_seconds.through(lambda fixed: max(0.0, fixed) * (1 - 1 / part.ranks))
    more = propagate(lambda a, b: a - b, part.communication, unshared)
    number = (
        f"Ideal would be T(1)/{part.ranks}, {said(part.ideal, 'ms')}. A step of {ranks_phrase(part.ranks)} takes "
        f"{said(part.measured, 'ms')}: {said(part.paid, 'ms')} of communication, {said(part.fixed, 'ms')} fixed and "
        f"{said(part.computed, 'ms')} of computing."
    )
    number += _rest_words(part)
    if more.low > 0:
        verdict = "Communication: it costs more than the fixed part of a step."
    elif more.high < 0:
        verdict = "The fixed part of a step, which every rank pays in full: it costs more than communication."
    else:
        verdict = "Communication and the fixed part of a step; which of the two costs more cannot be told."
    free = found.free.get(part.ranks)
    practice = (
        f"Without communication, on one rank too, the speedup would be {said(free)}: no faster link can bring more."
        if free is not None and free.number is not None
        else ""
    )
    return WHY.answer(
        verdict,
        number,
        _link_words(evidence, found, part),
        practice,
        decided="Communication as measured against fixed x (1 - 1/N): the interval of their difference, above, below "
        f"or across 0 (here {1e3 * more.low:.3g} to {1e3 * more.high:.3g} ms).",
        rests_on=(MODEL_TABLE, TABLE, ANATOMY, STEP),
        shaken_by=shaken_by(evidence, EXPERIMENT, "batch-scaling"),
    )


def _rest_words(part: ModelParts) -> str:
    """A sentence on the time that the model leaves unexplained; it gives a cause if that is more than chance."""
    low, high = part.rest.low or 0.0, part.rest.high or 0.0
    if high < 0:
        return (
            f" Together these are more than the step (not explained: {said(part.rest, 'ms')}), so some of it runs at "
            "the same time, or the machine was slower while the batches were measured."
        )
    left = f" The model leaves {said_with_interval(part.rest, 'ms')} unexplained"
    if low > 0:
        return f"{left}: ranks on one machine also share caches and memory bandwidth."
    return f"{left}, which may be nothing."


def _link_words(evidence: Evidence, found: StrongScaling, part: ModelParts) -> str:
    """A sentence on how far the bare link explains communication's cost in a step, by the interval of their ratio."""
    if part.by_link.number is None or part.over_link is None:
        return "Gradients are exchanged in every step, however few samples a rank computes."
    bare, times = said(part.by_link, "ms"), said_with_interval(part.over_cell)
    word = equivalent(part.over_link, MARGIN)
    if word == "equal within margin":
        return f"The bare link needs {bare} for these bytes, which agrees within 10 %."
    if word == "different" and part.over_link.value < 1:
        return (
            f"The bare link would need {bare} for these bytes: part of the exchange overlaps with backward and costs "
            "no extra time."
        )
    certain = "costs" if word == "different" else "seems to cost, though these runs do not settle it,"
    return (
        f"The bare link needs {bare} for these bytes. In training the exchange {certain} {times} times as much: "
        f"{_more_than_link(evidence)}.{_hidden_words(evidence)}"
    )


def _hidden_words(evidence: Evidence) -> str:
    """A sentence on messages that backward hides: they need not cost anything, so the link explains even less."""
    steps = ddp_steps(evidence)
    if not any(one.all_reduces and one.hidden_share > MARGIN for one in steps):
        return ""
    return (
        f" And {hidden_text(steps)} % of the all-reduces lies under backward in an inspected step, so the bare link "
        "explains even less."
    )


def _more_than_link(evidence: Evidence) -> str:
    """The reason why a message of a training step takes longer than a message alone."""
    if on_gpus(evidence):
        return (
            "a message waits for the slower rank, its kernels share the GPU with backward's, and gradients are copied "
            "into buckets and back"
        )
    return "a message waits for the slower rank, and gloo adds and copies it with the cores that still compute backward"


def _why_predicted(evidence: Evidence, found: StrongScaling) -> Answer:
    """Returns the answer from one rank and predictions alone, as on a machine with one GPU."""
    one = next((part for part in found.parts if part.ranks == 1), None)
    if one is None and computing(evidence) is None:
        return _why_flat(evidence, found)
    if one is None or not found.predicted:
        return unanswered(WHY, found.missing_reason or NEEDED_FOR_WHY, TABLE)
    last = found.predicted[-1]
    fixed_most = one.fixed_seconds.low > 0.5 * one.whole.value
    number = (
        f"Of the step of {said(one.measured, 'ms')} on one rank {said(one.fixed, 'ms')} are fixed and "
        f"{said(one.computed, 'ms')} compute its samples; {last.ranks} ranks would still take {said(last.step, 'ms')} "
        "(predicted)."
    )
    if fixed_most:
        verdict, why = FIXED, _fixed_words(evidence)
    else:
        verdict = "By prediction the fixed part of a step and the exchange of gradients."
        why = "Only the computing of samples is divided among ranks."
    practice = "A larger batch or a larger model gives the ranks something to divide."
    return WHY.answer(
        verdict,
        f"{found.missing_reason} {number}",
        why,
        practice,
        decided="The fixed part is the cause where its lower end is above half of one rank's step.",
        rests_on=(MODEL_TABLE, TABLE),
        shaken_by=shaken_by(evidence, EXPERIMENT, "batch-scaling"),
    )


def _fixed_words(evidence: Evidence) -> str:
    if on_gpus(evidence):
        return (
            "With so small a model the GPU mostly waits for the CPU, which launches one kernel after another, and "
            "half the samples need as many launches."
        )
    return "Every rank pays in full what a step costs whatever its batch."


def _why_flat(evidence: Evidence, found: StrongScaling) -> Answer:
    """Returns the answer if one rank takes as long for few samples as for many: ranks have nothing to divide."""
    rows = sorted((row for row in scaling_rows(evidence, BATCHES) if row.ranks == 1), key=batch_of)
    if len(rows) < 3:
        return unanswered(WHY, found.missing_reason or NEEDED_FOR_WHY, TABLE)
    seen = again(evidence)
    few, many = (estimate_cell(seen.widened(row.step_seconds), 1e3) for row in (rows[0], rows[-1]))
    number = (
        f"One rank takes {said(few, 'ms')} for a batch of {batch_of(rows[0]):g} and {said(many, 'ms')} for one of "
        f"{batch_of(rows[-1]):g}."
    )
    further = f"{_further(found)} " if found.predicted else ""
    return WHY.answer(
        FIXED,
        f"{found.missing_reason} {number}".strip(),
        _fixed_words(evidence),
        f"{further}A larger batch or a larger model gives the ranks something to divide.",
        decided="No line goes through one rank's steps over the batch: they do not grow.",
        rests_on=(TABLE, BATCH_TABLE),
        shaken_by=shaken_by(evidence, EXPERIMENT, BATCHES),
    )
