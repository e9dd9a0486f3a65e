"""H1.1: why warm-up is left out, and why randomness must be controlled, from the first steps and from the losses."""

from dataclasses import dataclass
from statistics import mean, median

from scalewise.analysis.estimate import Estimate, RunMedian, estimate
from scalewise.analysis.figures import RunFigures
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import listed, number_phrase, percent_phrase, percent_text, seconds_phrase
from scalewise.units import seconds_text

ROW = "H1.1"
WHY_WARMUP = "Why is warm-up needed?"
WHY_SEEDS = "Why must randomness be controlled?"
COURSE_IGNORES = 5  # steps, as the course asks
CLEARLY = 1.05  # a first step within 5 % of the rest would spoil no mean
TRACE = "strong-scaling"


@dataclass(frozen=True)
class WarmUpFigures:
    """The first steps of one experiment's runs against the rest."""

    shown: RunFigures  # the run that is drawn
    ranks: int
    first_over_rest: Estimate  # first step over the median of the steps after warm-up
    mean_error: Estimate  # mean over all steps against the mean without the first five, minus 1
    runs: tuple[str, ...]


@dataclass(frozen=True)
class SeedPair:
    """Two runs with the same setting of the seed, loss by loss."""

    seed: str
    runs: tuple[str, str]
    steps: int  # losses that both recorded
    equal: int  # of them, bit for bit
    first_difference: int | None  # step
    largest_relative: float
    relative_at_end: float


def warm_up(evidence: Evidence) -> WarmUpFigures | None:
    """From the runs of strong scaling with the most ranks that are no oversubscription."""
    rows = [row for row in evidence.rows(TRACE) if row.mark == "measured" and row.step_seconds is not None]
    experiment = evidence.experiment(TRACE)
    if not rows or experiment is None:
        return None
    row = rows[-1]
    runs = [run for run in experiment.runs if run.name in row.run_names and len(run.step_seconds) > 2 * COURSE_IGNORES]
    if not runs:
        return None
    firsts = [run.step_seconds[0] / median(run.step_seconds[max(run.warmup_steps, 1) :]) for run in runs]
    errors = [mean(run.step_seconds) / mean(run.step_seconds[COURSE_IGNORES:]) for run in runs]
    ratio = _over_runs(errors)
    error = Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1, ratio.steps, ratio.runs, ratio.method)
    return WarmUpFigures(runs[0], row.ranks, _over_runs(firsts), error, tuple(run.name for run in runs))


def _over_runs(ratios: list[float]) -> Estimate:
    return estimate([RunMedian(one, one, one, 1) for one in ratios])


def warm_up_answer(evidence: Evidence) -> Answer:
    """Needed where the first step is clearly slower than the rest; else said to be without effect here."""
    found = warm_up(evidence)
    if found is None:
        return unanswered(ROW, WHY_WARMUP, f"{TRACE} has no usable run of more than {2 * COURSE_IGNORES} steps")
    shown = found.shown
    rest = median(shown.step_seconds[shown.warmup_steps :])
    first = number_phrase(found.first_over_rest)
    error = percent_phrase(found.mean_error)
    settled = (
        f"the run settles after {shown.warmup_steps} step{'' if shown.warmup_steps == 1 else 's'}"
        if shown.warmup_over
        else f"the run had not settled after a third of its steps ({shown.warmup_steps})"
    )
    numbers = (
        f"In {shown.name} the first step takes {seconds_text(shown.step_seconds[0])}, the median of the rest "
        f"{seconds_text(rest)}; over {_runs_words(len(found.runs))} the first is {first} times the rest, and {settled}."
    )
    if found.first_over_rest.low > CLEARLY:
        text = (
            f"{numbers} Averaging the first {COURSE_IGNORES} steps in would change the mean by {error}: "
            f"{_error_words(found.mean_error)} The first steps pay once for what "
            "later ones find ready: memory, buckets, connections, kernels. So they are left out, not averaged away."
        )
    else:
        text = (
            f"{numbers} Here the first steps are not clearly slower, and averaging them in would change the mean by "
            f"{error}. Leaving them out costs {COURSE_IGNORES} steps and guards against runs in which they are."
        )
    condition = f"first step / median of the rest = {first}; lower end > {CLEARLY} means needed"
    return Answer(ROW, WHY_WARMUP, text, condition, found.runs)


def _runs_words(count: int) -> str:
    return "this one run" if count == 1 else f"{count} such runs"


def _error_words(error: Estimate) -> str:
    if error.low > 0:
        return "an error of the method, not of the machine, and not the same on every number of ranks."
    return "within the scatter of these steps."


def seed_pairs(evidence: Evidence) -> tuple[SeedPair, ...]:
    """The first two runs of every setting of the seed."""
    experiment = evidence.experiment("seeds")
    pairs = []
    for row in evidence.rows("seeds"):
        runs = [run for run in (experiment.runs if experiment else ()) if run.name in row.run_names]
        if len(runs) >= 2:
            pairs.append(_pair(str(row.axes.get("seed")), runs[0], runs[1]))
    return tuple(pairs)


def _pair(seed: str, a: RunFigures, b: RunFigures) -> SeedPair:
    both = [
        (step, x, y)
        for step, (x, y) in enumerate(zip(a.losses, b.losses, strict=False))
        if x is not None and y is not None
    ]
    apart = [abs(x - y) / max(abs(x), abs(y)) if x != y else 0.0 for _, x, y in both]
    first = next((step for step, x, y in both if x != y), None)
    equal = sum(x == y for _, x, y in both)
    return SeedPair(
        seed, (a.name, b.name), len(both), equal, first, max(apart, default=0.0), apart[-1] if apart else 0.0
    )


def seeds_answer(evidence: Evidence) -> Answer:
    """Four cases: fixed runs agree or not, free runs differ or not."""
    pairs = {pair.seed: pair for pair in seed_pairs(evidence) if pair.steps}
    fixed = next((pair for seed, pair in pairs.items() if seed != "none"), None)
    free = pairs.get("none")
    if fixed is None or free is None:
        missing = listed([word for word, pair in (("with the seed", fixed), ("without one", free)) if pair is None])
        return unanswered(ROW, WHY_SEEDS, f"the experiment seeds lacks two finished runs {missing}")
    same, different = fixed.equal == fixed.steps, free.equal < free.steps
    text = f"{_fixed_words(fixed, same)} {_free_words(free, different)} {_seed_lesson(same, different)}"
    condition = (
        f"losses equal bit for bit: {fixed.equal} of {fixed.steps} with seed {fixed.seed}, "
        f"{free.equal} of {free.steps} without"
    )
    return Answer(ROW, WHY_SEEDS, text, condition, (*fixed.runs, *free.runs))


def _fixed_words(pair: SeedPair, same: bool) -> str:
    if same:
        return f"Two runs with seed {pair.seed} give the same loss bit for bit, {pair.steps} of {pair.steps} recorded."
    return (
        f"Two runs with seed {pair.seed} differ from step {pair.first_difference} on, by at most "
        f"{percent_text(pair.largest_relative)} of the loss."
    )


def _free_words(pair: SeedPair, different: bool) -> str:
    if not different:
        return f"Two runs without a seed give the same loss as well, {pair.steps} of {pair.steps} recorded."
    return (
        f"Two without a seed differ from step {pair.first_difference} on, by at most "
        f"{percent_text(pair.largest_relative)} and at the end by {percent_text(pair.relative_at_end)}."
    )


def _seed_lesson(same: bool, different: bool) -> str:
    if same and different:
        return (
            "Without a seed that much of any difference between two settings is chance, and a wrong gradient could "
            "hide in it; with one, a changed loss means a changed computation."
        )
    if not same and different:
        return (
            "The seed alone does not make this machine repeatable: some operation is not deterministic, so losses are "
            "to be compared within that distance only."
        )
    if same:
        return "So the seed decides nothing here: the script draws no random number that reaches the loss."
    return "Fixing the seed did not help and leaving it out did not harm: the pairs are not what they are said to be."


def trace_words(found: WarmUpFigures) -> str:
    """The caption under the drawn run."""
    rest = found.shown.step_seconds[found.shown.warmup_steps :]
    middle = Estimate(median(rest), min(rest), max(rest), len(rest), 1, "range")
    return f"{found.shown.name}; after warm-up {seconds_phrase(middle)} (median and range)."


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """Both questions of H1.1."""
    return warm_up_answer(evidence), seeds_answer(evidence)
