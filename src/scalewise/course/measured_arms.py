"""The arms of a suite as answers need them: seen to do what their label says, figures, memory, and how two differ.

The suite sets constants such as DIM from outside. A student's script may contain them as fixed numbers, and would then
run the same under every label. So what the watcher saw is compared with what was set, and a row whose script did not
do it is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isqrt
from statistics import median_low
from typing import Any, Literal

from scalewise.analysis.arms import arm_of
from scalewise.analysis.comparison import compare_runs
from scalewise.analysis.estimate import CONFIDENCE, Estimate, level_text, percent_phrase
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.memory_use import MemoryParts, memory_parts
from scalewise.analysis.ratio import ratio, ratio_of, seconds_between
from scalewise.analysis.summary import ArmRow
from scalewise.plan.words import value_text
from scalewise.records.inspection import MemoryPartsRow
from scalewise.records.load import Run
from scalewise.records.spec import RunSpec
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, number_cell, said
from scalewise.report.document import Cell
from scalewise.units import without_stop

SIZE_SLACK = 0.10  # share of the weights: a script may leave out biases, or add normalisation
LEAST_DELAY_SHARE = 0.25  # share of a set delay that must show in the step, however loaded the machine is
WORK_VARIABLES = ("DIM", "DEPTH", "BATCH", "ACCUM_STEPS", "DELAY", "IMBALANCE")


def label_refusal(evidence: Evidence, row: ArmRow) -> str:
    """Returns why the row's label differs from what was seen, as the end of a sentence; empty if it does not."""
    runs = _timed(evidence, row)
    if not runs:
        return ""
    spec = runs[0].spec
    reasons = (
        _size(spec.env, runs[0]),
        _batch(spec.env, row),
        _micro_batches(spec.env, row),
        _steps(spec.env, runs),
        _ranks(runs),
        _precision(spec.env, row),
        next(_delays(evidence, row, spec), ""),
        next(_same_as_others(evidence, row, runs[0]), ""),
    )
    return next((reason for reason in reasons if reason), "")


def refusals(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """Returns every refused row of these experiments as a sentence for a note, the same reason once."""
    found: dict[str, None] = {}
    for name in experiments:
        for row in _rows(evidence, name):
            reason = label_refusal(evidence, row)
            if reason:
                found[f"Refused: {reason}."] = None
    return tuple(found)


def _timed(evidence: Evidence, row: ArmRow) -> list[Run]:
    found = (evidence.run(name) for name in row.run_names)
    return [run for run in found if run is not None and run.measured and run.spec.timed]


def _rows(evidence: Evidence, experiment: str) -> tuple[ArmRow, ...]:
    found = evidence.experiment(experiment)
    return found.rows if found else ()


def _size(env: Mapping[str, str], run: Run) -> str:
    dim, depth = _whole(env, "DIM"), _whole(env, "DEPTH")
    models = [rank.model for rank in run.ranks if rank.model is not None]
    if dim is None or depth is None or not models:
        return ""
    seen, weights = models[0].parameters, dim * dim * depth
    if weights * (1 - SIZE_SLACK) <= seen <= (weights + dim * depth) * (1 + SIZE_SLACK):
        return ""
    other = _as_stack(seen, depth)
    told = f"as many as {other} x {depth}" if other else "another model"
    return (
        f"your script does not read DIM or DEPTH: it was to train {dim} x {depth}, and its model has {_grouped(seen)} "
        f"parameters, {told}"
    )


def _as_stack(parameters: int, depth: int) -> int | None:
    """Returns the width at which so many layers have exactly so many parameters, with biases or without."""
    if parameters % depth:
        return None
    layer = parameters // depth
    root = isqrt(layer)
    return root if layer in (root * root, root * (root + 1)) else None


def _batch(env: Mapping[str, str], row: ArmRow) -> str:
    batch, seen = _whole(env, "BATCH"), row.samples_per_step
    if batch is not None and env.get("GROW_BATCH") == "1":
        batch *= _whole(env, "ACCUM_STEPS") or 1  # here BATCH is the number of samples of one micro-batch
    if batch is None or seen is None or abs(seen - batch) < 0.5:
        return ""
    if abs(seen - batch * row.ranks) < 0.5:
        return (
            f"BATCH is the batch of all ranks together: it was set to {batch}, and {row.ranks} ranks took {seen:g} "
            f"samples a step, {batch} each"
        )
    return f"your script does not read BATCH: it was set to {batch}, and a step took {seen:g} samples"


def _micro_batches(env: Mapping[str, str], row: ArmRow) -> str:
    wanted, seen = _whole(env, "ACCUM_STEPS"), row.micro_batches
    if wanted is None or seen is None or abs(seen - wanted) < 0.5:
        return ""
    return (
        f"your script does not read ACCUM_STEPS: it was set to {wanted}, and an optimizer step held {seen:g} backward "
        "passes"
    )


def _steps(env: Mapping[str, str], runs: list[Run]) -> str:
    wanted = _whole(env, "STEPS")
    seen = [rank.end.steps for run in runs for rank in run.ranks if rank.end is not None]
    micro = _whole(env, "ACCUM_STEPS") or 1
    if wanted is None or not seen or max(seen) in (wanted, wanted // micro, wanted * micro):
        return ""
    return f"your script does not read STEPS: it was set to {wanted}, and {max(seen)} optimizer steps were made"


def _ranks(runs: list[Run]) -> str:
    worlds = {rank.start.world_size for run in runs for rank in run.ranks if rank.start is not None}
    wanted = runs[0].spec.world_size
    if not worlds or worlds == {wanted} or runs[0].spec.mode == "python":
        return ""
    return f"{wanted} ranks were started, and your script saw {max(worlds)}"


def _precision(env: Mapping[str, str], row: ArmRow) -> str:
    wanted = env.get("PRECISION")
    if wanted is None or not row.precision:
        return ""
    seen = row.precision.of_products
    if seen == wanted:
        return ""
    return f"your script does not read PRECISION: it was set to {wanted}, and the model computed in {seen}"


def _delays(evidence: Evidence, row: ArmRow, spec: RunSpec) -> Iterator[str]:
    """Yields the reason if a delay that was set does not show in the step."""
    for name in ("DELAY", "IMBALANCE"):
        asked = _number(spec.env, name)
        if not asked or row.step_seconds is None:
            continue
        if row.step_seconds.high < LEAST_DELAY_SHARE * asked:
            yield f"your script does not read {name}: it was set to {asked:g} s, and a whole step took less than that"
            continue
        for other in _siblings(evidence, row, spec, name):
            base = _timed(evidence, other)
            if not base or _number(base[0].spec.env, name) != 0 or other.step_seconds is None:
                continue
            if row.step_seconds.high - other.step_seconds.low < LEAST_DELAY_SHARE * asked:
                yield f"your script does not read {name}: with {asked:g} s a step takes no longer than with 0"


def _same_as_others(evidence: Evidence, row: ArmRow, run: Run) -> Iterator[str]:
    """Yields the reason if two rows that should do different work did the same.

    A row whose model agrees exactly with its label is not refused for it.
    """
    own = _work(row, run)
    if own[0] in _weights(run.spec.env):
        return
    for other in _rows(evidence, run.spec.experiment):
        runs = _timed(evidence, other)
        if not runs or other.ranks != row.ranks or other is row or None in own or _work(other, runs[0]) != own:
            continue
        env = runs[0].spec.env
        apart = [name for name in WORK_VARIABLES[:4] if run.spec.env.get(name) != env.get(name)]
        if apart:
            values = f"{apart[0]}={env.get(apart[0])} and {apart[0]}={run.spec.env.get(apart[0])}"
            yield f"your script does not read {apart[0]}: with {values} it did the same work"


def _weights(env: Mapping[str, str]) -> tuple[int, ...]:
    """Returns the parameters of the stack of layers that the label names, without biases and with them."""
    dim, depth = _whole(env, "DIM"), _whole(env, "DEPTH")
    return (dim * dim * depth, dim * (dim + 1) * depth) if dim and depth else ()


def _work(row: ArmRow, run: Run) -> tuple[object, ...]:
    model = next((rank.model for rank in run.ranks if rank.model is not None), None)
    return model.parameters if model else None, row.samples_per_step, row.micro_batches


def _siblings(evidence: Evidence, row: ArmRow, spec: RunSpec, changed: str) -> Iterator[ArmRow]:
    """Yields the rows that differ from this one in that variable alone."""
    rest = {key: value for key, value in spec.env.items() if key != changed}
    for other in _rows(evidence, spec.experiment):
        runs = _timed(evidence, other)
        if not runs or other.ranks != row.ranks or other.change != row.change:
            continue
        env = runs[0].spec.env
        if env.get(changed) != spec.env.get(changed) and rest == {k: v for k, v in env.items() if k != changed}:
            yield other


def _whole(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _number(env: Mapping[str, str], name: str) -> float | None:
    try:
        return float(env[name])
    except (KeyError, ValueError):
        return None


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


Verdict = Literal["faster", "slower", "cannot tell"]
COURSE_LEVEL = CONFIDENCE  # level of all intervals and all verdicts in a course report, so that both agree
CHANGE_NO_STEP = ("STEPS", "WARMUP", "SEED")  # constants of the course's scripts that do not change a step's work
NOTHING_AT_ZERO = ("DELAY", "IMBALANCE")
REFUSED = "refused: "  # beginning of the reason if a script did not do what its row says
MEANT = ("precision", "changes")  # differences between two arms that are meant to be compared
HEAP = "C heap in use when backward begins"
SAME = 0.01  # of a peak: less is no difference worth a word
Sign = Literal["same", "less", "more"]
MEGABYTE = 1e6
GIGABYTE = 1e9


@dataclass(frozen=True)
class Contrast:
    """The effect on the step of what differs between arms A and B."""

    verdict: Verdict  # B is ...
    change: Estimate  # B's step time over A's, less one
    seconds: Estimate  # B's step time less A's
    smallest_visible: float  # smallest relative difference that would have been seen

    @property
    def condition(self) -> str:
        """The rule behind the verdict, with its numbers."""
        change, level = f"change of the step time {percent_phrase(self.change)}", level_text(self.change.level)
        if self.verdict == "cannot tell":
            return f"{change} ({level}): the interval holds 0"
        return f"{change} ({level}): the interval lies {'above' if self.verdict == 'slower' else 'below'} 0"


def usable(evidence: Evidence, experiment: str, *, change: str = "none", **axes: Any) -> ArmRow | None:
    """Returns the arm that has figures and did what its label says; of several, the one with the most ranks."""
    rows = evidence.rows(experiment, change=change, **axes)
    known = (row for row in reversed(rows) if row.step_seconds is not None)
    return next((row for row in known if not label_refusal(evidence, row)), None)


def arm_refusal(evidence: Evidence, experiment: str, **axes: Any) -> str:
    """Returns in what the script of that arm did not do what its label says; empty if it did, or if it was not run."""
    reasons = (label_refusal(evidence, row) for row in evidence.rows(experiment, **axes))
    reason = next(filter(None, reasons), "")
    return f"{REFUSED}{reason}" if reason else ""


def missing_reason(evidence: Evidence, experiment: str, **axes: Any) -> str:
    """Returns why that arm has no figures, for a sentence: `experiment amp, precision float16 failed (no memory)`."""
    name = ", ".join([f"experiment {experiment}", *(f"{key} {value_text(value)}" for key, value in axes.items())])
    rows = evidence.rows(experiment, **axes)
    if refused := arm_refusal(evidence, experiment, **axes):
        return refused
    reason = next((row.reason for row in rows if row.reason), "")
    if reason:
        return f"{name} failed ({without_stop(reason)})"
    return f"{name} is not finished" if rows else f"{name} was not run"


def numbers_along(evidence: Evidence, experiment: str, axis: str, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the whole numbers of an axis as they were run, ascending; the course's own if none was run."""
    found = evidence.experiment(experiment)
    texts = {str(row.axes[axis]) for row in (found.rows if found else ()) if axis in row.axes}
    return tuple(sorted(int(text) for text in texts if text.isdecimal())) or wanted


def runs_of(evidence: Evidence, row: ArmRow) -> tuple[Run, ...]:
    """Returns the arm's runs, usable or not."""
    return tuple(run for name in row.run_names if (run := evidence.run(name)) is not None)


def figures_of(evidence: Evidence, row: ArmRow | None) -> tuple[RunFigures, ...]:
    """Returns the figures of the arm's usable runs."""
    if row is None:
        return ()
    found = [one for experiment in evidence.analysis.experiments for one in experiment.runs]
    return tuple(one for one in found if one.name in row.run_names)


def contrast(evidence: Evidence, a: ArmRow | None, b: ArmRow | None) -> Contrast | None:
    """Returns what B changes against A on as many ranks; None if one is missing or their work differs."""
    if a is None or b is None or a.ranks != b.ranks:
        return None
    runs_a, runs_b = runs_of(evidence, a), runs_of(evidence, b)
    if not runs_a or not runs_b:
        return None
    found = compare_runs(runs_a, runs_b, allow=MEANT, level=COURSE_LEVEL)
    if found.change is None or found.smallest_visible is None or found.answer == "refused":
        return None
    return Contrast(found.answer, found.change, _seconds(runs_a, runs_b), found.smallest_visible)


def step_ratio(evidence: Evidence, a: ArmRow | None, b: ArmRow | None) -> Estimate | None:
    """Returns A's step time over B's, from their runs, paired if these took turns; None if one is missing.

    Interleaved runs are paired as well. Two arms are compared by this ratio, never by whether their intervals overlap.
    The
    caller must know whether their work is the same, as some questions ask for ratios of different work.
    """
    if a is None or b is None or a.step_seconds is None or b.step_seconds is None:
        return None
    sides = [arm_of(runs) for runs in (runs_of(evidence, a), runs_of(evidence, b)) if runs]
    if len(sides) < 2 or not all(one.measured for one in sides):
        return ratio_of(a.step_seconds.at(COURSE_LEVEL), b.step_seconds.at(COURSE_LEVEL))
    return ratio(sides[0].side(), sides[1].side(), COURSE_LEVEL)


def all_reduces(evidence: Evidence, row: ArmRow) -> tuple[int, int]:
    """Returns (count, bytes) of the all-reduces of a typical optimizer step on one rank.

    This is the median over steps, as DDP has different buckets in its very first ones.
    """
    ranks = [rank for run in runs_of(evidence, row) if run.measured for rank in run.ranks if rank.steps]
    seen = [step.collectives.get("all_reduce", (0, 0)) for step in (ranks[0].steps if ranks else ())]
    if not seen:
        return 0, 0
    return median_low(count for count, _ in seen), median_low(size for _, size in seen)


def _seconds(a: tuple[Run, ...], b: tuple[Run, ...]) -> Estimate:
    one, two = arm_of(a), arm_of(b)
    return seconds_between(one.side(), two.side(), COURSE_LEVEL)


@dataclass(frozen=True)
class Peak:
    """The most memory in use at once on one rank, and how it was measured."""

    bytes: int
    witness: str


def peak_of(evidence: Evidence, experiment: str, **axes: Any) -> Peak | None:
    """Returns the allocator's peak on a GPU; on CPU ranks that of the tensors, seen by inspection; else the C heap."""
    row = usable(evidence, experiment, **axes)
    memory = row.memory if row else None
    if memory and memory.cuda_peak_allocated_bytes is not None:
        return Peak(memory.cuda_peak_allocated_bytes, "peak of torch's CUDA allocator, largest over the ranks")
    inspected = evidence.inspection(experiment, **axes)
    if inspected and inspected.peak_bytes is not None:
        return Peak(inspected.peak_bytes, "most bytes that tensors held at once on rank 0, from an inspected run")
    if memory and memory.heap_at_backward_bytes is not None:
        return Peak(memory.heap_at_backward_bytes, f"{HEAP}, largest over the ranks")
    return None


def memory_sign(before: int | None, after: int | None) -> Sign:
    """Tells whether the second peak is less or more than the first, by the one rule of all answers."""
    a, b = before or 0, after or 0
    if abs(b - a) <= SAME * max(a, 1):
        return "same"
    return "less" if b < a else "more"


def witness_notes(witnesses: Iterable[str], more: str = "") -> tuple[str, ...]:
    """The notes on what a column of memory shows; the heap of a process is not to be compared with peaks of tensors."""
    said = list(dict.fromkeys(filter(None, witnesses)))
    if not said:
        return ()
    apart = "; the whole heap of the process, so not to be compared with other tables" if HEAP in " ".join(said) else ""
    return (f"Memory: {'; or '.join(said)}{more}{apart}.",)


def parts_of(evidence: Evidence, experiment: str, **axes: Any) -> MemoryParts | None:
    """Returns memory by purpose in a steady step of the arm's inspected run."""
    inspected = evidence.inspection(experiment, **axes)
    run = evidence.run(inspected.run) if inspected else None
    rank = next((rank for rank in run.ranks if rank.inspection), None) if run else None
    rows = [row for row in (rank.inspection if rank else ()) if isinstance(row, MemoryPartsRow) and row.at_peak]
    found = memory_parts(inspected)
    if inspected is None or found is None or not rows:
        return found
    highest = max(row.peak_bytes for row in rows)
    # The first step lacks what it sets up for the others, and in one step DDP rebuilds its buckets: neither is typical.
    steady = memory_parts(replace(inspected, memory=min(rows[1:] or rows, key=lambda row: row.peak_bytes)))
    return replace(steady, outside_bytes=max(0, (inspected.peak_bytes or 0) - highest)) if steady else found


@dataclass(frozen=True)
class Point:
    """One row of a table: what was measured, or why nothing was."""

    label: str
    row: ArmRow | None
    missing: str  # why there are no figures; empty if there are some
    peak_bytes: int | None
    peak_witness: str  # how the peak was measured
    reduces: int  # all-reduces of one optimizer step on one rank
    reduced_bytes: int

    @property
    def ranks(self) -> Cell:
        """The number of ranks that ran; emulated if they shared a GPU."""
        return count_cell(self.row.ranks, mark=mark_of(self.row)) if self.row else empty_cell(self.missing)

    @property
    def step(self) -> Cell:
        """The step in milliseconds."""
        step = self.row.step_seconds if self.row else None
        return estimate_cell(step, 1e3, mark=mark_of(self.row), why_empty=self.missing)

    def phase(self, name: str) -> Cell:
        """Returns the time of one phase in milliseconds, mean over the ranks."""
        seconds = self.row.phase_seconds.get(name) if self.row else None
        return number_cell(seconds, 1e3, why_empty=self.missing or "not seen")

    @property
    def peak_mb(self) -> Cell:
        """The peak of memory in megabytes."""
        return number_cell(self.peak_bytes, 1 / MEGABYTE, why_empty=self.missing or "not seen", note=self.peak_witness)

    @property
    def peak_gb(self) -> Cell:
        """The peak of memory in gigabytes, as the sheet asks."""
        return number_cell(self.peak_bytes, 1 / GIGABYTE, why_empty=self.missing or "not seen", note=self.peak_witness)

    @property
    def reduced_mb(self) -> Cell:
        """The megabytes that the ranks average in one optimizer step."""
        return number_cell(self.reduced_bytes / MEGABYTE if self.row else None, why_empty=self.missing)

    @property
    def run_names(self) -> tuple[str, ...]:
        """The runs behind the point."""
        return self.row.run_names if self.row else ()


def point(evidence: Evidence, label: str, experiment: str, *, change: str = "none", **axes: Any) -> Point:
    """Returns the arm with these values, or, if its script did not do what its label says, why it is missing."""
    row = usable(evidence, experiment, change=change, **axes)
    missing = "" if row else missing_reason(evidence, experiment, **axes)
    if row is None and arm_refusal(evidence, experiment, **axes):
        return Point(label, None, missing, None, "", 0, 0)
    peak = peak_of(evidence, experiment, **axes)
    count, size = all_reduces(evidence, row) if row else (0, 0)
    return Point(label, row, missing, peak.bytes if peak else None, peak.witness if peak else "", count, size)


@dataclass(frozen=True)
class StepChange:
    """The change of the step from A to B, in percent."""

    verdict: Verdict  # B is ...
    cell: Cell  # signed

    def words(self) -> str:
        """Returns `12 % less time`, with the digits of the cell."""
        size = replace(self.cell, text=self.cell.text.lstrip("−-+"))
        return f"{said(size, '%')} {'less' if (self.cell.number or 0) < 0 else 'more'} time"


def change_between(evidence: Evidence, a: Point, b: Point) -> StepChange | None:
    """Returns the change from A to B; None if one is missing, or if they did not do the same work on as many ranks."""
    found = contrast(evidence, a.row, b.row)
    return StepChange(found.verdict, estimate_cell(found.change, 100)) if found else None


def change_cell(found: StepChange | None, why: str = "nothing to compare with") -> Cell:
    """Returns the change in percent, or an empty cell."""
    return found.cell if found else empty_cell(why)
