"""H1.5B: larger batches: do they scale better, from which batch on do ranks pay, and when does throughput saturate."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import SATURATED, Saturation, saturation
from scalewise.analysis.ratio import equivalent, ratio_of
from scalewise.course.homework import Question, Told
from scalewise.course.homework1.comparable_rows import (
    ASKED,
    EQUAL,
    FIGURE_WIDTH,
    MARGIN,
    again,
    batch_of,
    measured_there,
    row_at,
    scaling_rows,
    shaken_by,
    unanswered,
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
from scalewise.course.page_pieces import SeriesStyle, cells_series, estimates_series, setting
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, number_cell, said, said_with_interval
from scalewise.report.document import Answer, Block, Cell, Column, Figure, LinePlot, PlotSeries, Section, Table
from scalewise.units import ranks_phrase

ORDER, EXPERIMENT = 51, "batch-scaling"
TABLE, SPEEDUP, THROUGHPUT = "h1-5b-batch", "h1-5b-speedup", "h1-5b-throughput"
NEEDED = "Three batches on the same number of ranks are needed, and one rank with the same batches."
BETTER = Question(
    "H1.5B",
    "Does a larger batch scale better?",
    "the efficiencies of the smallest and the largest batch, and where the speedup passes 1",
)
WHEN = Question(
    "H1.5B", "When does it saturate?", "samples per second over the batch, and what the last doubling gained"
)
GPU_RANKS = (4,)  # the sheet's own example


@dataclass(frozen=True)
class Batch:
    """One global batch: one rank beside several."""

    samples: int
    one: RanksPoint | None
    many: RanksPoint | None

    @property
    def rate_one(self) -> Cell:
        """The throughput of one rank, in samples a second."""
        return _rate_cell(self.samples, self.one)

    @property
    def rate(self) -> Cell:
        """The throughput of several ranks, in samples a second."""
        return _rate_cell(self.samples, self.many)

    @property
    def rates(self) -> Estimate | None:
        """The throughput of several ranks; of one rank if there are no several."""
        return _rate(self.samples, self.many) or _rate(self.samples, self.one)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells in the order of the columns."""
        empty = empty_cell("not measured")
        many = (self.many.step, self.many.speedup, self.many.efficiency) if self.many else (empty, empty, empty)
        return count_cell(self.samples), self.one.step if self.one else empty, *many, self.rate_one, self.rate


@dataclass(frozen=True)
class Sped:
    """One batch on several ranks that have a speedup over one."""

    samples: int
    one: RanksPoint | None
    many: RanksPoint
    speeds: Estimate


@dataclass(frozen=True)
class Batches:
    """The data for H1.5B."""

    ranks: int  # the most ranks that were measured
    here: tuple[Batch, ...]
    predicted_count: int  # ranks of the predicted rows; 0 if there are none
    predicted: tuple[Batch, ...]
    gpus: tuple[Batch, ...]
    predictions: tuple[tuple[str, ArmPrediction], ...]
    fit: Saturation | None  # of the most measured ranks
    fit_one: Saturation | None  # of one rank beside several
    gain: Estimate | None  # throughput of the largest batch over the one before
    bound: float | None  # samples/s that the device's arithmetic allows
    missing_reason: str

    @property
    def compared(self) -> list[Sped]:
        """The batches with a measured speedup; if there are none, those with a predicted one."""
        return _sped(self.here) or _sped(self.predicted) or _sped(self.gpus)

    @property
    def beside(self) -> list[Sped]:
        """The predicted batches that the verdict does not rest on: predicted ranks, or GPUs."""
        rows = self.gpus or self.predicted
        found = _sped(rows)
        if len(found) < 2 or found == self.compared or found[0].many.mark != "predicted":
            return []
        return found


def build(evidence: Evidence) -> Section:
    """Builds the section: table, figures, answers."""
    found = batches(evidence)
    figures = (_speedup_figure(found), _throughput_figure(found))
    blocks: list[Block] = [_table(evidence, found), *(one for one in figures if one is not None)]
    return Section("h1-5b", "Larger batches", (*blocks, _better(evidence, found), _when(evidence, found)))


def batches(evidence: Evidence) -> Batches:
    """Returns the batches on one rank and on the most that were measured, predicted ones, and those of GPUs."""
    rows = scaling_rows(evidence, EXPERIMENT)
    ranks = max((row.ranks for row in rows), default=1)
    sizes = sorted({round(batch_of(row)) for row in rows})
    predictions = tuple((f"batch {size}:", predicted_ranks(evidence, EXPERIMENT, batch=size)) for size in sizes)
    here, predicted, gpus = [], [], []
    most_predicted = max((row.ranks for _, one in predictions for row in one.rows), default=0)
    there = max((n for n in ASKED if n > ranks and measured_there(evidence, EXPERIMENT, n)), default=0)
    count = max(most_predicted, there)
    for size, (_, prediction) in zip(sizes, predictions, strict=True):
        points = points_of_arm(evidence, EXPERIMENT, prediction, (1, ranks, count or 1), batch=size)
        known = {point.ranks: point for point in reversed(points) if point.step.number is not None}
        here.append(Batch(size, known.get(1), known.get(ranks) if ranks > 1 else None))
        if count and count != ranks:
            predicted.append(Batch(size, known.get(1), known.get(count) if count > 1 else None))
        on_gpus = gpu_points(evidence, EXPERIMENT, (1, *GPU_RANKS), batch=size)
        if len(on_gpus) > 1:
            gpus.append(Batch(size, on_gpus[0], on_gpus[-1]))
    rates = [one.rates for one in here if one.rates is not None]
    return Batches(
        ranks=ranks,
        here=tuple(here),
        predicted_count=count if predicted else 0,
        predicted=tuple(predicted),
        gpus=tuple(gpus),
        predictions=predictions,
        fit=saturation(_steps(evidence, sizes, ranks)),
        fit_one=saturation(_steps(evidence, sizes, 1)) if ranks > 1 else None,
        gain=ratio_of(rates[-1], rates[-2]) if len(rates) > 1 else None,
        bound=_bound(evidence, ranks),
        missing_reason=why_no_scaling(evidence, EXPERIMENT),
    )


def _sped(rows: Sequence[Batch]) -> list[Sped]:
    return [Sped(one.samples, one.one, one.many, one.many.speeds) for one in rows if one.many and one.many.speeds]


def _steps(evidence: Evidence, sizes: Sequence[int], ranks: int) -> list[tuple[float, Estimate]]:
    """Returns the steps over the batch, on that many ranks."""
    found = []
    for size in sizes:
        row = row_at(scaling_rows(evidence, EXPERIMENT, batch=size), ranks)
        step = again(evidence).widened(row.step_seconds.at(COURSE_LEVEL)) if row and row.step_seconds else None
        found += [(float(size), step)] if step is not None else []
    return found


def _rate_cell(size: int, point: RanksPoint | None) -> Cell:
    if point is None:
        return empty_cell("not measured")
    return estimate_cell(_rate(size, point), mark=point.mark, why_empty="not measured", note=point.step.note)


def _rate(size: int, point: RanksPoint | None) -> Estimate | None:
    """Returns the batch over the step, from the step's cell in ms, so that table and answer have the same source."""
    if point is None or not point.step.number or not point.step.low or not point.step.high:
        return None
    step = point.step
    value, low, high = (1e3 * size / (end or 1.0) for end in (step.number, step.high, step.low))
    return Estimate(value, low, high, 0, 0, "batch over step", COURSE_LEVEL, positive=True)


def _bound(evidence: Evidence, ranks: int) -> float | None:
    """Returns the device's peak over the operations of a sample, counted in the small case of H1.3."""
    experiment = evidence.experiment("model-size")
    for use in experiment.utilisation if experiment else ():
        run = evidence.run(use.run)
        row = row_at(evidence.rows("model-size", case="small"), run.spec.world_size) if run else None
        if run is None or row is None or run.spec.axes.get("case") != "small" or not row.samples_per_step:
            continue
        if use.flops_per_step and use.peak_flops_per_second:
            a_sample = use.flops_per_step * run.spec.world_size / row.samples_per_step
            return ranks * use.peak_flops_per_second / a_sample
    return None


def _table(evidence: Evidence, found: Batches) -> Table:
    many = ranks_phrase(found.ranks) if found.ranks > 1 else "several ranks"
    columns = (
        Column("Global batch"),
        Column("Step of 1 rank", "ms"),
        Column("Step of several", "ms"),
        Column("Speedup"),
        Column("Efficiency", "%"),
        Column("Throughput of 1", "samples/s"),
        Column("Throughput of several", "samples/s"),
    )
    groups = [(0, f"Several: {many}, measured")] if found.here and found.ranks > 1 else [(0, "One rank, measured")]
    rows = [one.cells for one in found.here]
    elsewhere = any(one.many is not None and one.many.mark == "measured" for one in found.predicted)
    if found.predicted and (elsewhere or not found.gpus):
        where = ", measured on another machine" if elsewhere else " like these, predicted"
        groups.append((len(rows), f"Several: {found.predicted_count} ranks{where}"))
        rows += [one.cells for one in found.predicted]
    if found.gpus:
        groups.append((len(rows), f"Several: {GPU_RANKS[-1]} GPUs. {gpu_heading(evidence)}"))
        rows += [one.cells for one in found.gpus]
    notes = [*refusals(evidence, EXPERIMENT)]
    notes += [GPU_NOTE] if found.gpus else told(evidence, found.predictions, said_before=True)
    caption = f"{setting(evidence, EXPERIMENT, but=('BATCH', 'ranks'))} {EQUAL} {_fit_words(found)}".strip()
    return Table(
        TABLE,
        "Batches of 32 to 256 on one rank and on several",
        columns,
        tuple(rows),
        (*notes, *([] if rows else [found.missing_reason])),
        caption=caption,
        groups=tuple(groups) if rows else (),
    )


def _fit_words(found: Batches) -> str:
    words = []
    if found.fit is not None:
        words.append(
            f"A line through the steps of {ranks_phrase(found.ranks)}: "
            f"{said_with_interval(_fixed(found.fit), 'ms')} are fixed, and throughput tends to "
            f"{said_with_interval(_limit(found.fit), 'samples/s')}, {100 * SATURATED:.0f} % of it at a batch of "
            f"{said_with_interval(estimate_cell(found.fit.batch))}."
        )
    if found.fit_one is not None:
        words.append(
            f"On one rank 90 % of its limit, {said(_limit(found.fit_one), 'samples/s')}, is reached at "
            f"{said_with_interval(estimate_cell(found.fit_one.batch))}."
        )
    if found.gain is not None:
        words.append(f"The last doubling multiplies throughput by {said_with_interval(estimate_cell(found.gain))}.")
    if found.bound is not None:
        words.append(f"Arithmetic alone would allow {said(number_cell(found.bound), 'samples/s')}.")
    return " ".join(words)


def _fixed(fit: Saturation) -> Cell:
    return estimate_cell(fit.fixed_seconds, 1e3)


def _limit(fit: Saturation) -> Cell:
    return estimate_cell(fit.limit_per_second)


def _speedup_figure(found: Batches) -> Figure | None:
    named: tuple[tuple[str, Sequence[Batch], SeriesStyle], ...] = (
        (ranks_phrase(found.ranks), found.here, "measured"),
        (f"{found.predicted_count} ranks", () if found.gpus else found.predicted, "predicted"),
        (f"{GPU_RANKS[-1]} GPUs", found.gpus, "predicted"),
    )
    known = [(name, [(float(one.samples), one.speeds) for one in _sped(rows)], style) for name, rows, style in named]
    series = [estimates_series(name, points, style=style) for name, points, style in known if len(points) > 1]
    if not series:
        return None
    ticks = tuple(float(one.samples) for one in found.here)
    level = PlotSeries("as one rank", (ticks[0], ticks[-1]), (1.0, 1.0), style="ideal")
    plot = LinePlot("global batch", "speedup", (level, *series), log_x=True, x_ticks=ticks)
    return Figure(SPEEDUP, "Speedup over the batch", "Above the grey line several ranks pay.", plot, FIGURE_WIDTH)


def _throughput_figure(found: Batches) -> Figure | None:
    series = []
    for name, alone in (("1 rank", True), (ranks_phrase(found.ranks), False)):
        line = cells_series(name, [(one.samples, one.rate_one if alone else one.rate) for one in found.here])
        series += [line] if line is not None and len(line.x) > 1 else []
    if not series:
        return None
    ticks = tuple(float(one.samples) for one in found.here)
    if found.fit is not None:
        dense = tuple(ticks[0] * (ticks[-1] / ticks[0]) ** (index / 20) for index in range(21))
        series.append(
            PlotSeries("t₀ + c b", dense, tuple(found.fit.throughput(batch) for batch in dense), style="model")
        )
    plot = LinePlot("global batch", "samples/s", tuple(series), log_x=True, x_ticks=ticks)
    caption = "Batch over step time; points: 95 % intervals."
    if found.fit is not None:
        caption += f" t₀ + c b: the line through the steps of {ranks_phrase(found.ranks)}."
    return Figure(THROUGHPUT, "Throughput over the batch", caption, plot, FIGURE_WIDTH)


def _better(evidence: Evidence, found: Batches) -> Answer:
    """Returns the answer, by the interval of the ratio of the efficiencies of the largest and the smallest batch."""
    known = found.compared
    if len(known) < 2:
        return unanswered(BETTER, found.missing_reason or NEEDED, TABLE)
    first, last = known[0], known[-1]
    predicted = first.many.mark == "predicted"
    change = ratio_of(last.speeds, first.speeds)
    word = equivalent(change, MARGIN)
    if word == "equal within margin":
        verdict: Told = "No", "efficiency stays the same within 10 %."
    elif word == "cannot tell":
        verdict = "It cannot be told from these runs."
    elif change.value > 1:
        verdict = "Yes, by prediction." if predicted else "Yes, where it was measured." if found.beside else "Yes."
    else:
        verdict = "No, here efficiency falls."
    number = (
        f"On {ranks_phrase(first.many.ranks)} efficiency {'would be' if predicted else 'is'} "
        f"{said(first.many.efficiency, '%')} at batch {first.samples} and {said(last.many.efficiency, '%')} at "
        f"{last.samples}."
    )
    return BETTER.answer(
        verdict,
        f"{found.missing_reason} {number}" if predicted and found.missing_reason else number,
        "The gradients have as many bytes whatever the batch, and fixed costs stay as they are; a larger batch "
        "spreads both over more samples."
        if change.value > 1
        else "Something besides computing grows with the batch, such as traffic to a memory that the ranks share.",
        f"{_pays(known)} {_predicted_words(found.beside, gpus=bool(found.gpus))}".strip(),
        decided="The interval of the ratio of both efficiencies, above, below or within "
        f"{MARGIN:.0%} of 1 (here {change.low:.3g} to {change.high:.3g}).",
        rests_on=(TABLE, SPEEDUP),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _pays(known: Sequence[Sped]) -> str:
    """Returns a sentence on the batch from which several ranks are faster than one."""
    ranks, last = ranks_phrase(known[0].many.ranks), known[-1]
    ahead = next((index for index, one in enumerate(known) if one.speeds.low > 1), None)
    if ahead is None and last.speeds.high < 1:
        even = f"even at {last.samples} the speedup is {said(last.many.speedup)}"
        return f"But {ranks} do not pay at any of these batches: {even}."
    if ahead is None:
        speedup = said_with_interval(last.many.speedup)
        return f"Whether {ranks} pay at batch {last.samples} cannot be told: the speedup is {speedup}."
    first = known[ahead]
    speedup = f"with a speedup of {said(first.many.speedup)}"
    if ahead == 0:
        return f"{ranks} pay at every one of these batches, at {first.samples} already {speedup}."
    before = known[ahead - 1]
    return (
        f"{ranks} pay from a batch of {first.samples} on, {speedup}; at {before.samples} it is "
        f"{said(before.many.speedup)}."
    )


def _predicted_words(known: Sequence[Sped], *, gpus: bool) -> str:
    if not known:
        return ""
    first, last = known[0], known[-1]
    word = equivalent(ratio_of(last.speeds, first.speeds), MARGIN)
    where = f"{first.many.ranks} GPUs of the kind in the table" if gpus else ranks_phrase(first.many.ranks)
    told = (
        f"By prediction {where} would have {said(first.many.efficiency, '%')} at {first.samples} and "
        f"{said(last.many.efficiency, '%')} at {last.samples}"
    )
    if word == "different":
        return f"{told}."
    told += ", equal within 10 %" if word == "equal within margin" else ", which their intervals do not tell apart"
    one = [row.one.step for row in (first, last) if row.one is not None]
    if gpus and len(one) == 2 and (one[1].low or 0.0) <= (one[0].high or 0.0):
        told += (
            f": one GPU takes no longer for {last.samples} samples ({said(one[1], 'ms')}) than for {first.samples} "
            f"({said(one[0], 'ms')}), so there is hardly any computing yet that more GPUs could divide"
        )
    return f"{told}."


def _when(evidence: Evidence, found: Batches) -> Answer:
    """Returns the answer, by the batch at 90 % of the fitted limit against the largest one; a gain above 2 is noise."""
    known = [one for one in found.here if one.rates is not None]
    if len(known) < 3:
        return unanswered(WHEN, found.missing_reason or NEEDED, TABLE)
    largest, where = known[-1].samples, ranks_phrase(found.ranks)
    limits = doubling = ""
    if found.gain is not None:
        doubling = f"The last doubling, to {largest}, multiplies throughput by {said(estimate_cell(found.gain))}."
        if found.gain.value > 2:
            doubling += " A factor above 2 can only be noise: a step with twice the batch is not shorter."
    if found.bound is not None and found.fit is not None:
        limits = _bounded_words(found.fit.limit_per_second, found.bound)
    elif found.bound is not None:
        limits = f"The bound is arithmetic: {said(number_cell(found.bound), 'samples/s')} by the measured peak."
    if found.fit is None:
        verdict = f"Not within these batches on {where}: a step hardly grows up to {largest} samples."
        number, doubling = doubling, ""
        why = "Up to there a step is fixed cost, and more samples are almost free."
    else:
        verdict = _saturates(found.fit, largest, where)
        number = (
            f"Throughput tends to {said(_limit(found.fit), 'samples/s')} and reaches 90 % of it at a batch of "
            f"{said_with_interval(estimate_cell(found.fit.batch))}."
        )
        why = (
            f"A step has {said(_fixed(found.fit), 'ms')} that do not depend on the batch; once computing is much "
            "longer, more samples cost as much more time."
        )
    alone = ""
    if found.fit_one is not None:  # it has no exchange that a larger batch would spread over more samples
        alone = (
            "One rank, which exchanges nothing, reaches 90 % of its limit at a batch of "
            f"{said_with_interval(estimate_cell(found.fit_one.batch))}."
        )
    return WHEN.answer(
        verdict,
        number,
        why,
        " ".join(filter(None, (doubling, limits, alone))),
        decided=f"The batch at {100 * SATURATED:.0f} % of the limit of a line through the steps: its interval below, "
        f"across or above the largest batch, {largest}. No line where the step's growth per sample is not above "
        "0 with its interval.",
        rests_on=(TABLE, THROUGHPUT),
        shaken_by=shaken_by(evidence, EXPERIMENT),
    )


def _bounded_words(limit: Estimate, bound: float) -> str:
    """A sentence on the line's limit and the rate that arithmetic allows, which a fitted line may exceed."""
    most = said(number_cell(bound), "samples/s")
    if limit.value > bound:
        return f"Arithmetic alone would allow {most}, less than where the line tends: so arithmetic is the limit."
    if limit.high >= bound:
        return f"Arithmetic alone would allow {most}, so large batches are limited by arithmetic."
    return f"Arithmetic alone would allow {most}: the rest is memory traffic and waiting."


def _saturates(fit: Saturation, largest: int, where: str) -> str:
    if fit.batch.high <= 0:
        return f"It is saturated from the smallest batch on {where}: no part of the step is fixed."
    if fit.batch.high <= largest:
        return f"Within these batches on {where}."
    if fit.batch.low <= largest:
        return f"Near the largest of these batches on {where}; whether within them cannot be told."
    return f"Not within these batches on {where}, but beyond {largest}."
