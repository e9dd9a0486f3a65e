"""The common parts of homework 1's questions: rows that may be compared, repeats, the link, and reasons to doubt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence, once_per_report
from scalewise.analysis.fits import ComputeLine, ComputePoint, LinkFit, NoLinkFit, fit_compute, fit_link, link_points
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.scaling import BY_REMOVAL
from scalewise.analysis.summary import ArmRow
from scalewise.analysis.work import drift_of, with_drift
from scalewise.course.homework import Question
from scalewise.course.measured_arms import COURSE_LEVEL, label_refusal, runs_of
from scalewise.records.load import Run
from scalewise.records.spec import AxisValue
from scalewise.report.document import Answer
from scalewise.units import counted, listed, one_sentence, with_capital

REMOVED = "remove_communication"
FIGURE_WIDTH = 0.36  # share of the text's width: two are side by side, low enough for the sheet's four pages
EQUAL = "Called equal: within 10 %."
MARGIN = 0.10  # "the same": the whole interval of the ratio lies within ten percent of 1
ASKED = (1, 2, 4)  # numbers of GPUs that the sheet asks for


# The suite's own choices, such as the number of steps, are no caveat: the reader cannot change them, and the interval
# already shows their effect.
ACT_ON = {
    "failed runs": "a run of it failed: run the suite again, which makes up for what is missing",
    "loaded machine": "other programs used the machine: repeat it on a quiet one",
    "throttled": "the GPU was held back by heat or power: repeat it when it is cool",
    "drift": "steps became slower or faster during the run: repeat it on a quiet machine",
    "ranks apart": "the ranks did not exchange gradients",
}
MOST_BUSY = 0.5  # share of all rows above which one sentence for the report replaces a footnote at every number


def agreeing_rows(
    evidence: Evidence, experiment: str, *, change: str = "none", **axes: AxisValue
) -> tuple[ArmRow, ...]:
    """Returns the arms whose label agrees with what was seen, fewest ranks first, failed ones included."""
    rows = evidence.rows(experiment, change=change, **axes)
    return tuple(row for row in rows if not label_refusal(evidence, row))


def scaling_rows(evidence: Evidence, experiment: str, *, change: str = "none", **axes: AxisValue) -> tuple[ArmRow, ...]:
    """Returns those of these rows that show scaling: measured, with a core or a GPU for each rank."""
    return tuple(row for row in agreeing_rows(evidence, experiment, change=change, **axes) if scales(row))


def scales(row: ArmRow) -> bool:
    """Returns True if the arm may be used for scaling: measured, neither oversubscribed nor emulated."""
    return row.mark == "measured" and row.step_seconds is not None


def row_at(rows: Sequence[ArmRow], ranks: int) -> ArmRow | None:
    """Returns the row with so many ranks, or None."""
    return next((row for row in rows if row.ranks == ranks), None)


@dataclass(frozen=True)
class There:
    """One number of ranks that another machine of the same kind measured, with that machine's evidence."""

    evidence: Evidence
    row: ArmRow
    one: ArmRow  # one rank on that machine

    @property
    def machine(self) -> str:
        """The machine in words, for a footnote."""
        facts = self.evidence.machine
        if facts is None:
            return "another machine"
        gpus = f"{len(facts.gpus)} {facts.gpus[0].name}" if facts.gpus else f"{len(facts.cores)} cores"
        return f"another machine ({gpus})"


def measured_there(evidence: Evidence, experiment: str, ranks: int, **axes: AxisValue) -> There | None:
    """Returns these ranks on the report's first other machine of the same kind (CPUs or GPUs) that measured them."""
    for other in evidence.elsewhere:
        rows = scaling_rows(other, experiment, change="none", **axes)
        row, one = row_at(rows, ranks), row_at(rows, 1)
        if row is not None and one is not None and on_gpus(other) == on_gpus(evidence):
            return There(other, row, one)
    return None


def measured_runs(evidence: Evidence, row: ArmRow) -> list[Run]:
    """Returns the arm's runs that may be used."""
    return [run for run in runs_of(evidence, row) if run.measured]


def volume(row: ArmRow) -> tuple[float, float]:
    """Returns (number, bytes) of the all-reduces of one step of a rank, rounded, as DDP's first steps differ."""
    reduced = [one for one in row.collectives if one.kind.startswith("all_reduce")]
    return float(round(sum(one.count for one in reduced))), sum(one.bytes for one in reduced)


def price(row: ArmRow) -> Estimate | None:
    """Returns what communication costs a step: the step less the step without it."""
    return next((one.seconds.at(COURSE_LEVEL) for one in row.communication if one.method == BY_REMOVAL), None)


def link_at(evidence: Evidence, ranks: int) -> LinkFit | NoLinkFit | None:
    """Returns the link among so many ranks, each with its own core or GPU; None if it was not measured."""
    points = [
        (float(point.bytes), point.seconds)
        for run in evidence.loaded.runs
        if run.spec.experiment == "link" and run.measured and not run.spec.oversubscribed and not run.spec.emulated
        for point in link_points(run)
        if point.ranks == ranks
    ]
    return fit_link(points, ranks) if points else None


def batch_of(row: ArmRow) -> float:
    """Returns the global batch of the arm."""
    return float(row.axes.get("batch", row.samples_per_step or 0))


def computing(evidence: Evidence) -> ComputeLine | None:
    """Returns one rank's step over its batch, from the batches 32 to 256 that H1.5B measures on one rank anyway."""
    rows = [row for row in scaling_rows(evidence, "batch-scaling") if row.ranks == 1]
    points = [ComputePoint(batch_of(row), row.step_seconds) for row in rows if row.step_seconds is not None]
    return fit_compute(points) if len({point.samples_per_rank for point in points}) > 2 else None


def parameters(evidence: Evidence, row: ArmRow) -> int | None:
    """Returns how many parameters the arm's model has, or None."""
    models = (rank.model for run in measured_runs(evidence, row) for rank in run.ranks)
    return next((model.parameters for model in models if model is not None), None)


def on_gpus(evidence: Evidence) -> bool:
    """Returns True if the suite's ranks computed on GPUs."""
    return any(run.spec.device == "cuda" for run in evidence.loaded.runs)


def why_no_scaling(evidence: Evidence, experiment: str, **axes: AxisValue) -> str:
    """Returns why nothing of this experiment can be compared over ranks, as a sentence; empty if it can."""
    rows = evidence.rows(experiment, change="none", **axes)
    if not rows:
        return f"The experiment {experiment} was not run."
    usable = scaling_rows(evidence, experiment, change="none", **axes)
    if any(row.ranks > 1 and row.scaling.speedup is not None for row in usable) and row_at(usable, 1) is not None:
        return ""
    refused = next((reason for row in rows if (reason := label_refusal(evidence, row))), "")
    if refused:
        return f"The rows are refused: {refused}."
    few = few_devices(evidence, experiment)
    if few:
        return few
    failed = next((row for row in rows if row.reason), None)
    if failed is not None:
        return one_sentence(f"{counted(failed.ranks, 'rank')} failed: {failed.reason}")
    if row_at(usable, 1) is None:
        return f"The experiment {experiment} has no finished run on one rank, which a speedup is measured against."
    marks = listed([f"{row.ranks} ranks are {row.mark}" for row in rows if row.ranks > 1]) or "only one rank was run"
    why = next((row.scaling.refusal for row in rows if row.scaling.refusal and row.mark == "measured"), "")
    return f"There is no speedup to compare: {why or marks}."


def few_devices(evidence: Evidence, experiment: str) -> str:
    """Returns a sentence if this machine has fewer GPUs than the experiment asks for; empty if not."""
    gpus = len(evidence.machine.gpus) if evidence.machine else 0
    asked = [count for count in evidence.asked_ranks(experiment) or ASKED if count > 1]
    several = any(row.ranks > 1 and scales(row) for row in evidence.rows(experiment))
    if not on_gpus(evidence) or several or min(asked, default=1) <= gpus:
        return ""
    have = counted(gpus, "GPU")
    return f"This machine has {have}, and every rank needs a GPU of its own."


@dataclass(frozen=True)
class Again:
    """One configuration measured in several experiments of the suite; the spread of its medians widens intervals."""

    seen: tuple[tuple[str, Estimate], ...]  # (question, step) in the order of the suite

    @property
    def spread(self) -> float | None:
        """The largest step over the smallest, minus 1; None if there are fewer than two."""
        values = [step.value for _, step in self.seen]
        return max(values) / min(values) - 1 if len(values) > 1 else None

    @property
    def drift(self) -> float:
        """The standard deviation of the logarithm that the experiments' own intervals do not explain."""
        return drift_of([step for _, step in self.seen])

    def widened(self, step: Estimate | None) -> Estimate | None:
        """Returns a step with the drift between experiments added; ratios of runs made in turns do not need it."""
        return None if step is None else with_drift(step, self.drift, len(self.seen))


# The arms in which two ranks train DIM 1024, DEPTH 2, global batch 64 with nothing changed.
SAME: tuple[tuple[str, str, dict[str, AxisValue]], ...] = (
    ("H1.2", "strong-scaling", {}),
    ("H1.3", "model-size", {"case": "small"}),
    ("H1.4", "ddp", {}),
    ("H1.5A", "delay", {"delay": 0}),
    ("H1.5B", "batch-scaling", {"batch": 64}),
    ("H1.5C", "imbalance", {"imbalance": 0}),
)


def same_rows(evidence: Evidence) -> list[tuple[str, ArmRow]]:
    """Returns (question, row) of the same configuration throughout the suite: on two ranks, else on one."""
    for ranks in (2, 1):
        found = []
        for question, experiment, axes in SAME:
            row = row_at(scaling_rows(evidence, experiment, change="none", **axes), ranks)
            if row is not None and row.step_seconds is not None:
                found.append((question, row))
        if len(found) > 1:
            return found
    return []


@once_per_report
def again(evidence: Evidence) -> Again:
    """Returns the steps of the same configuration."""
    rows = same_rows(evidence)
    return Again(tuple((name, row.step_seconds.at(COURSE_LEVEL)) for name, row in rows if row.step_seconds))


def doubt_of(evidence: Evidence, row: ArmRow | None) -> str:
    """Returns the doubt for a cell's footnote; empty if there is none, or if the whole report has the same doubt."""
    names = {caveat.name for caveat in row.caveats if caveat.severity == "doubt"} if row else set()
    if busy(evidence).everywhere:
        names -= {"loaded machine", "drift"}
    return next((one_sentence(with_capital(phrase)) for name, phrase in ACT_ON.items() if name in names), "")


def shaken_by(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """Returns the doubts for an answer based on these experiments; doubts about the whole report are in its summary."""
    rows = [row for name in experiments for row in evidence.rows(name) if row.mark == "measured"]
    return tuple(dict.fromkeys(doubt for row in rows if (doubt := doubt_of(evidence, row))))


@dataclass(frozen=True)
class Busy:
    """The number of measurements of a report, and of those that were made beside other programs."""

    loaded: int
    every: int
    most_foreign: float | None  # the largest share of the cores that other programs used

    @property
    def everywhere(self) -> bool:
        """True if more than half of the measurements were made beside other programs."""
        return self.every > 0 and self.loaded > MOST_BUSY * self.every


def unanswered(question: Question, missing: str, table: str) -> Answer:
    """Returns an answer that says which runs are missing."""
    return question.answer("This cannot be answered from these runs.", missing, rests_on=(table,))


@once_per_report
def busy(evidence: Evidence) -> Busy:
    """Counts the measurements that were made beside other programs."""
    rows = [row for one in evidence.analysis.experiments for row in one.rows if row.step_seconds is not None]
    loaded = sum(any(caveat.name == "loaded machine" for caveat in row.caveats) for row in rows)
    states = (machine_state(run) for row in rows for run in measured_runs(evidence, row))
    foreign = [state.foreign for state in states if state.foreign is not None]
    return Busy(loaded, len(rows), max(foreign, default=None))


def shaken_answers(evidence: Evidence, answers: Mapping[str, Sequence[Answer]]) -> tuple[str, ...]:
    """Returns, for the summary, which answers are based on doubtful numbers, and why."""
    found = busy(evidence)
    if not found.everywhere:
        return shaken_rows(answers)
    share = f", up to {100 * found.most_foreign:.0f} % of its cores" if found.most_foreign is not None else ""
    every = (
        f"every time in this report: in {found.loaded} of {found.every} measurements other programs used the machine"
        f"{share}; repeat it on a quiet one"
    )
    return (every, *shaken_rows(answers))


def shaken_rows(answers: Mapping[str, Sequence[Answer]]) -> tuple[str, ...]:
    """Returns each doubt once, with the rows of the answers it concerns: `H1.2 and H1.4: other programs ...`."""
    rows: dict[str, list[str]] = {}
    for row, found in answers.items():
        for sentence in dict.fromkeys(sentence for one in found for sentence in one.shaken_by):
            rows.setdefault(sentence, []).append(row)
    phrases = {one_sentence(with_capital(phrase)): phrase for phrase in ACT_ON.values()}
    return tuple(f"{listed(shaken)}: {phrases[sentence]}" for sentence, shaken in rows.items())
