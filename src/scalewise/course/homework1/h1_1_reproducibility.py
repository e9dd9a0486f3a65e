"""H1.1: a reproducible set-up: why warm-up is left out, why randomness is controlled, and how well a number repeats."""

from dataclasses import dataclass, replace
from statistics import mean, median
from textwrap import dedent

from scalewise.analysis.estimate import Estimate, RunMedian, estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import RunFigures
from scalewise.course.code_listings import lines_listing
from scalewise.course.homework import Question
from scalewise.course.homework1.comparable_rows import (
    Again,
    again,
    agreeing_rows,
    measured_runs,
    on_gpus,
    scaling_rows,
    shaken_by,
)
from scalewise.course.measured_arms import COURSE_LEVEL, refusals
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell, estimate_cell, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    LinePlot,
    Listing,
    Paragraph,
    PlotSeries,
    Section,
    ShadedSpan,
    Table,
)
from scalewise.units import counted, listed, ranks_phrase

ORDER = 10
TRACE, SEEDS = "strong-scaling", "seeds"
SEED_TABLE, AGAIN_TABLE = "h1-1-seeds", "h1-1-again"
FIGURE, LISTING = "h1-1-trace", "h1-1-timing"
WHY_WARM_UP = Question(
    "H1.1",
    "Why is warm-up needed in GPU benchmarking?",
    "the first step, the median of the rest, and what the first five would do to the mean",
)
WHY_SEEDS = Question(
    "H1.1",
    "Why must randomness be controlled?",
    "how many losses are equal bit for bit with the seed fixed, and without",
)
IGNORED = 5  # number of first steps, as the sheet asks
LEAST_STEPS = 30  # least number of steps, as the sheet asks
CLEARLY = 1.05  # a first step within 5 % of the rest does not distort a mean


@dataclass(frozen=True)
class FirstSteps:
    """The first steps of runs against their rest, for one number of ranks."""

    ranks: int
    shown: RunFigures  # the run that is drawn
    runs: tuple[str, ...]
    first: Cell  # ms, of the run that is drawn
    rest: Cell  # ms, median after warm-up, of the same run
    slower: int  # later steps of the run that is drawn that took longer than its first
    times: Cell  # the first step over the median of the rest, over all runs
    error: Cell  # % by which the mean of all steps differs from the mean without the first five, over all runs


@dataclass(frozen=True)
class SeedPair:
    """Two runs with the same setting of the seed, compared loss by loss."""

    fixed: bool
    runs: tuple[str, str]
    compared: Cell
    equal: Cell
    first_difference: int | None  # step
    largest: Cell  # %
    thinned: bool  # not every step's loss was read

    @property
    def same(self) -> bool:
        """True if all compared losses are equal bit for bit."""
        return self.compared.number == self.equal.number


def build(evidence: Evidence) -> Section:
    """Builds the section: the set-up in words and code, the first steps, seeds, the repeated configuration, answers."""
    warm, pairs, seen = warm_up(evidence), seed_pairs(evidence), again(evidence)
    listing = _listing(evidence)
    blocks: list[Block] = [Paragraph(_set_up(evidence))]
    blocks += [listing] if listing else []
    blocks += [*([_figure(warm)] if warm else []), _seed_table(evidence, pairs)]
    blocks += [_again_table(seen)] if len(seen.seen) > 1 else []
    answers = (_warm_up_answer(evidence, warm), _seed_answer(pairs, listing))
    return Section("h1-1", "A reproducible set-up", (*blocks, *answers))


def warm_up(evidence: Evidence) -> FirstSteps | None:
    """Returns the first steps of the strong-scaling runs with the most ranks that have a core or a GPU each."""
    rows = scaling_rows(evidence, TRACE)
    experiment = evidence.experiment(TRACE)
    if not rows or experiment is None:
        return None
    row = rows[-1]
    runs = [run for run in experiment.runs if run.name in row.run_names and len(run.step_seconds) > 2 * IGNORED]
    if not runs:
        return None
    shown = runs[0]
    rest = median(shown.step_seconds[IGNORED:])
    times = _over_runs([run.step_seconds[0] / median(run.step_seconds[IGNORED:]) for run in runs])
    means = _over_runs([mean(run.step_seconds) / mean(run.step_seconds[IGNORED:]) for run in runs])
    return FirstSteps(
        ranks=row.ranks,
        shown=shown,
        runs=tuple(run.name for run in runs),
        first=number_cell(shown.step_seconds[0], 1e3),
        rest=number_cell(rest, 1e3),
        slower=sum(one > shown.step_seconds[0] for one in shown.step_seconds[IGNORED:]),
        times=estimate_cell(times),
        error=estimate_cell(means.through(lambda ratio: ratio - 1), 100),
    )


def _over_runs(ratios: list[float]) -> Estimate:
    return estimate([RunMedian(one, one, one, 1, COURSE_LEVEL) for one in ratios])


def seed_pairs(evidence: Evidence) -> tuple[SeedPair, ...]:
    """Returns the first two runs with the seed fixed, and the first two without."""
    experiment = evidence.experiment(SEEDS)
    found = []
    for row in agreeing_rows(evidence, SEEDS):
        runs = [run for run in (experiment.runs if experiment else ()) if run.name in row.run_names]
        if len(runs) > 1 and any(loss is not None for loss in runs[0].losses):
            found.append(_pair(str(row.axes.get("seed")) != "none", runs[0], runs[1]))
    return tuple(sorted(found, key=lambda pair: not pair.fixed))


def _pair(fixed: bool, a: RunFigures, b: RunFigures) -> SeedPair:
    both = [
        (step, x, y)
        for step, (x, y) in enumerate(zip(a.losses, b.losses, strict=False))
        if x is not None and y is not None
    ]
    apart = [abs(x - y) / max(abs(x), abs(y)) if x != y else 0.0 for _, x, y in both]
    return SeedPair(
        fixed=fixed,
        runs=(a.name, b.name),
        compared=count_cell(len(both)),
        equal=count_cell(sum(x == y for _, x, y in both)),
        first_difference=next((step for step, x, y in both if x != y), None),
        largest=number_cell(max(apart, default=0.0), 100),
        thinned=any(step > index for index, (step, _, _) in enumerate(both)),
    )


def _set_up(evidence: Evidence) -> str:
    rows = evidence.rows(TRACE)
    runs = [run for row in rows for run in measured_runs(evidence, row)]
    steps = next((run.spec.env["STEPS"] for run in runs if "STEPS" in run.spec.env), "")
    made = f"{steps} steps a run (the sheet asks for {LEAST_STEPS})" if steps else f"at least {LEAST_STEPS} steps a run"
    wait = (
        "The clock is read only after `torch.cuda.synchronize()`"
        if on_gpus(evidence)
        else "On GPUs the clock is read only after `torch.cuda.synchronize()`; here CPU cores compute, and a call that "
        "has returned is done"
    )
    return (
        "Every rank sets `torch.manual_seed(0)` and `torch.cuda.manual_seed_all(0)` before it builds the model. A "
        f"step is timed from before forward to after `optimizer.step()`; {made}, the first {IGNORED} are warm-up and "
        f"ignored, and only rank 0 prints. {wait}. A step takes as long as its slowest rank. Runs that are compared "
        "were made in turns, so that a change of the machine's speed affects all of them alike."
    )


def _listing(evidence: Evidence) -> Listing | None:
    found = lines_listing(
        evidence,
        TRACE,
        ("start = clock()", "times.append", 'print(f"step'),
        id=LISTING,
        title="How a step is timed, and who prints",
    )
    lines = found.text.splitlines() if found else []
    if found is None or not lines or not lines[-1].endswith(":"):
        return found
    return replace(found, text=dedent("\n".join(lines[:-1])))  # what follows the last line is not shown


def _figure(found: FirstSteps) -> Figure:
    times = tuple(1e3 * one for one in found.shown.step_seconds)
    series = PlotSeries(ranks_phrase(found.ranks), tuple(float(step) for step in range(len(times))), times)
    span = ShadedSpan(-0.5, IGNORED - 0.5, f"first {IGNORED}, ignored")
    plot = LinePlot("step", "step time (ms)", (series,), (span,), log_y=max(times) > 5 * min(times))
    runs = counted(len(found.runs), "run")
    later = len(times) - IGNORED
    caption = (
        f"DIM 1024, DEPTH 2, batch 64, {ranks_phrase(found.ranks)}. Its first step takes {said(found.first, 'ms')}, "
        f"the median after the first {IGNORED} is {said(found.rest, 'ms')}; {found.slower} of the {later} later "
        f"steps took longer than the first. Over {runs} the first step is {said_with_interval(found.times)} times "
        f"the rest, and the mean with the first {IGNORED} is off by {said_with_interval(found.error, '%')}; a "
        "bracket is a 95 % interval."
    )
    return Figure(FIGURE, "Every step of one run", caption, plot, 0.5)


def _seed_table(evidence: Evidence, pairs: tuple[SeedPair, ...]) -> Table:
    columns = (
        Column("Seed", numeric=False),
        Column("Losses compared"),
        Column("Equal bit for bit"),
        Column("First difference", "step"),
        Column("Largest difference", "%"),
    )
    rows = tuple(
        (
            text_cell("0, fixed" if one.fixed else "not fixed"),
            one.compared,
            one.equal,
            text_cell("none") if one.first_difference is None else count_cell(one.first_difference),
            one.largest,
        )
        for one in pairs
    )
    notes = () if rows else (f"The experiment {SEEDS} has no pair of finished runs.",)
    if any(one.thinned for one in pairs):
        notes = (*notes, "In a loop this fast only some steps are looked at; the losses of the others were not read.")
    return Table(
        SEED_TABLE,
        "Two runs with a fixed seed and two without, loss by loss",
        columns,
        rows,
        (*notes, *refusals(evidence, SEEDS)),
        tuple(one.runs for one in pairs),
        caption=setting(evidence, SEEDS, bracket=False),
    )


def _again_table(seen: Again) -> Table:
    """Returns the same configuration as measured in every experiment, which is the best check of the intervals."""
    columns = tuple(Column(question, "ms") for question, _ in seen.seen)
    spread = number_cell(seen.spread, 100)
    row = (*(estimate_cell(step, 1e3) for _, step in seen.seen), spread, number_cell(seen.drift, 100))
    return Table(
        AGAIN_TABLE,
        f"The same configuration, measured {len(seen.seen)} times within the suite",
        (*columns, Column("Longest over shortest, less 1", "%"), Column("Not explained by the intervals", "%")),
        (row,),
        caption="DIM 1024, DEPTH 2, batch 64, the same ranks and script in every column. Last column: the spread "
        "between the columns, as a standard deviation, that their 95 % intervals do not explain. It widens the "
        "intervals of step times below, but not those of speedups, whose runs took turns.",
    )


def _warm_up_answer(evidence: Evidence, found: FirstSteps | None) -> Answer:
    why = (
        "On a GPU the first steps pay once for what later ones find ready: the CUDA context, kernels that are "
        "loaded on first use, cuBLAS's choice of algorithms, memory that the caching allocator has to ask the "
        "driver for, clocks that rise under load, NCCL's connections, and DDP's buckets, which it rebuilds after "
        "the first step. Kernel launches are also asynchronous: without `torch.cuda.synchronize()` the clock stops "
        "before the GPU has finished."
    )
    if found is None:
        return WHY_WARM_UP.answer("The first steps pay for set-up that later ones do not pay.", why=why)
    times, error = _estimate_of(found.times), _estimate_of(found.error)
    if not on_gpus(evidence):
        why += (
            " CPU cores, as here, have no CUDA context: they set up memory, threads, gloo's connections and DDP's "
            "buckets."
        )
    number = (
        f"Here the first step of a run takes {said(found.first, 'ms')}, the median of the rest {said(found.rest, 'ms')}"
    )
    slow = times[0] > CLEARLY
    number += (
        f"; over all runs the first is {said(found.times)} times as long as the median of the rest."
        if slow
        else ". Over all runs this is no clear difference."
    )
    return WHY_WARM_UP.answer(
        _warm_up_verdict(slow, error[0] > 0),
        number,
        why,
        _warm_up_practice(found, slow, error[0] > 0),
        decided=f"Clearly slower: the lower end of first / rest, {times[0]:.3g}, is above {CLEARLY}. The mean is "
        f"too high where the lower end of its error is above 0; it is {error[0]:.3g} %.",
        rests_on=(FIGURE,),
        shaken_by=shaken_by(evidence, TRACE),
    )


def _warm_up_verdict(slow: bool, too_high: bool) -> str:
    """The verdict, which claims only what is measured: the first step and the run's mean may say different things."""
    if slow and too_high:
        return "The first steps take longer than the others, so a mean that includes them is too high."
    if slow:
        return "The first step takes longer, because it pays for set-up that later ones do not pay."
    return "The first steps pay for set-up that later ones do not pay, so they are ignored."


def _warm_up_practice(found: FirstSteps, slow: bool, too_high: bool) -> str:
    if too_high:
        return (
            f"With the first {IGNORED} included, the mean would be {said(found.error, '%')} too long, and by another "
            "amount on another number of ranks, which would distort the speedup."
        )
    changed = said_with_interval(found.error, "%")
    told = f"In runs of this length the first {IGNORED} do not change the mean clearly: {changed}."
    if slow and found.slower:
        later = counted(found.slower, "later step")
        told += (
            f" {later} of the drawn run took longer than its first, "
            "which no warm-up removes: this report compares medians."
        )
    return f"{told} Leaving them out costs nothing, and protects the result on machines where they matter."


def _estimate_of(cell: Cell) -> tuple[float, float]:
    """Returns the ends of a cell's interval."""
    middle = cell.number or 0.0
    return (cell.low if cell.low is not None else middle), (cell.high if cell.high is not None else middle)


def _seed_answer(pairs: tuple[SeedPair, ...], listing: Listing | None) -> Answer:
    rests = (SEED_TABLE, *((LISTING,) if listing else ()))
    why = (
        "The seed decides the first weights and the data, and so every loss. DDP sends rank 0's weights to all ranks "
        "when it is constructed, so ranks start alike with any seed; but each draws the batch itself, and only with "
        "a common seed do they take parts of one and the same batch."
    )
    practice = (
        "Only then can a difference between two runs be put down to what was changed, and only then can others "
        "repeat it. Step times still differ from run to run: they depend on the machine, which no seed controls."
    )
    fixed = next((pair for pair in pairs if pair.fixed), None)
    free = next((pair for pair in pairs if not pair.fixed), None)
    if fixed is None or free is None:
        missing = listed([word for word, one in (("with the seed fixed", fixed), ("without a seed", free)) if not one])
        verdict = "So that two runs differ only in what was changed between them."
        return WHY_SEEDS.answer(verdict, f"Not measured: two finished runs {missing} are missing.", why, practice)
    numbers = (
        f"With the seed fixed {said(fixed.equal)} of {said(fixed.compared)} losses of two runs are equal bit for bit, "
        f"without it {said(free.equal)} of {said(free.compared)}"
    )
    if fixed.same and not free.same:
        verdict = "So that two runs differ only in what was changed between them."
        number = f"{numbers}, up to {said(free.largest, '%')} apart."
    elif not free.same:
        verdict = "So that runs can be compared at all; here the seed alone does not make them equal."
        number = (
            f"{numbers}. Some operation is not deterministic: with the seed losses differ by up to "
            f"{said(fixed.largest, '%')}, without it by {said(free.largest, '%')}."
        )
    else:
        verdict = "So that runs can be compared; in this script the seed changes nothing."
        number = f"{numbers}: no random number reaches the loss."
    return WHY_SEEDS.answer(
        verdict,
        number,
        why,
        practice,
        decided="Losses are compared bit for bit, step by step, between two runs of each kind.",
        rests_on=rests,
    )
