"""The whole analysis of a suite as one value: tables of arms, refusals, caveats, and the runs that are in no table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

from scalewise.analysis.arms import ArmRuns, arms_of
from scalewise.analysis.caveats import Caveat, caveats_of, other_hosts
from scalewise.analysis.comparison import Comparison, compare_in_turns
from scalewise.analysis.estimate import Estimate, estimate
from scalewise.analysis.figures import Collective, Memory, RunFigures, run_figures
from scalewise.analysis.inspected_run import FailedInspection, failed_inspections_of
from scalewise.analysis.machine_state import gpu_busy_share, gpu_bytes_per_rank
from scalewise.analysis.memory_use import MemoryAccount, MemoryGrowth, memory_accounts_of, memory_growth_of
from scalewise.analysis.relation import Relation
from scalewise.analysis.run_files import RunFiles, run_files_of
from scalewise.analysis.scaling import Communication, ScalingFigures, communication_of, scaling_of
from scalewise.analysis.series import NOTHING_SEEN, PHASES, StepModules
from scalewise.analysis.utilisation import Utilisation, utilisations_of
from scalewise.analysis.work import Precision
from scalewise.records.load import LoadedSuite, Run
from scalewise.records.spec import AxisValue
from scalewise.units import one_sentence


@dataclass(frozen=True)
class ExaminedRun:
    """A run that notes were taken of; its times are in no table."""

    run: str
    experiment: str
    ranks: int
    changed: tuple[str, ...]  # from outside: the fix of a replay
    failure: str  # empty: it finished


@dataclass(frozen=True)
class RehearsedRun:
    """A run whose few processes represented ranks of a larger group; its times are in no table."""

    run: str
    experiment: str
    ranks: int  # that it represented
    company: int  # processes that were really there
    failure: str  # empty: it can be used


def examined_runs_of(runs: Iterable[Run]) -> tuple[ExaminedRun, ...]:
    """The examined runs of a folder, in the order in which they were started."""
    found = sorted((run for run in runs if run.spec.examined), key=lambda run: run.started_unix_seconds or 0.0)
    return tuple(
        ExaminedRun(
            run.spec.name,
            run.spec.experiment,
            run.spec.world_size,
            tuple(one.label() for one in run.spec.changes),
            _failure(run),
        )
        for run in found
    )


def rehearsed_runs_of(runs: Iterable[Run]) -> tuple[RehearsedRun, ...]:
    """The rehearsed runs of a folder, by name; one that did not end counts as failed."""
    found = [
        RehearsedRun(run.spec.name, run.spec.experiment, run.spec.rehearsed.world_size, run.spec.ranks, _failure(run))
        for run in runs
        if run.spec.rehearsed is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.experiment, one.ranks, one.run)))


def _failure(run: Run) -> str:
    if run.measured:
        return ""
    return run.outcome.sentence if run.outcome else "it is not finished"


Mark = Literal["measured", "oversubscribed", "emulated", "failed", "unfinished"]


@dataclass(frozen=True)
class ArmRow:
    """One row of an experiment's table; figures are None if the arm has no usable run or did not record them."""

    label: str
    axes: dict[str, AxisValue]
    change: str  # as a suite writes it; `none` for a plain run
    ranks: int  # over all nodes
    device: str
    mark: Mark
    reason: str  # why it failed; empty otherwise
    runs: int
    runs_failed: int
    run_names: tuple[str, ...]
    warmup_steps: int | None  # the most over its runs
    step_seconds: Estimate | None
    loop_seconds: Estimate | None  # the step, the gap before it and waiting for data
    samples_per_second: Estimate | None  # over all ranks, by the loop
    samples_per_step: float | None
    micro_batches: float | None
    variation: float | None  # standard deviation over mean of a run's steps
    p95_over_median: float | None
    skew_seconds: float | None
    slowest_rank: int | None
    slowest_share: float | None  # of the steps in which that rank was the slowest
    phase_seconds: dict[str, float | None]  # mean over ranks: data, forward, backward, optimizer, rest
    scaling: ScalingFigures
    communication: tuple[Communication, ...]
    collectives: tuple[Collective, ...]
    memory: Memory
    precision: Precision
    first_loss: float | None
    last_loss: float | None
    skipped_steps: int
    non_finite_steps: int
    caveats: tuple[Caveat, ...]
    blocked_seconds: float | None = None  # in collectives that the script called itself, per step, mean over ranks
    between_seconds: float | None = None  # neither in a step nor waiting for data, mean over ranks
    gpu_busy_share: float | None = None  # of the time, with a kernel running, by NVML
    memory_share: float | None = None  # of the GPU's memory, reserved by the allocator at its peak
    relation: Relation | None = None  # how its ranks relate to each other
    modules: StepModules = NOTHING_SEEN  # modules with which the steps open, and at which samples are counted
    hosts: tuple[str, ...] = ()  # on which its runs lay, where they were chosen; empty: on one that was not

    @property
    def speedup(self) -> Estimate | None:
        """Against the base; `scaling` says which, or why there is none."""
        return self.scaling.speedup

    @property
    def efficiency(self) -> Estimate | None:
        """Speedup per rank."""
        return self.scaling.efficiency


@dataclass(frozen=True)
class ScalingRefusal:
    """A speedup that is not given, and the reason."""

    arm: str
    reason: str


@dataclass(frozen=True)
class ExperimentAnalysis:
    """One experiment: its question, its table and its caveats."""

    name: str
    title: str
    question: str
    axes: tuple[str, ...]  # the columns that vary, ranks and change not counted
    rows: tuple[ArmRow, ...]
    refusals: tuple[ScalingRefusal, ...]
    caveats: tuple[Caveat, ...]  # of all rows, each once
    runs: tuple[RunFigures, ...]
    in_turns: tuple[Comparison, ...] = ()  # arms that took turns, each compared with the first of them
    utilisation: tuple[Utilisation, ...] = ()  # of the arms that have an inspected run


@dataclass(frozen=True)
class Analysis:
    """The analysis of a suite's folder."""

    path: Path
    name: str
    title: str
    about: str
    experiments: tuple[ExperimentAnalysis, ...]
    notes: tuple[str, ...]  # what could not be read
    inspected_runs: int = 0  # in none of the tables; `analysis.inspection` reads them
    failed_inspections: tuple[FailedInspection, ...] = ()
    examined_runs: tuple[ExaminedRun, ...] = ()  # nor are these
    rehearsed_runs: tuple[RehearsedRun, ...] = ()
    memory_accounts: tuple[MemoryAccount, ...] = ()  # of the inspected runs
    memory_growth: tuple[MemoryGrowth, ...] = ()  # of the timed runs, the fastest first
    files: tuple[RunFiles, ...] = ()  # of all runs whose files were recorded

    @property
    def doubtful(self) -> bool:
        """Tells whether any number is not to be trusted."""
        return any(caveat.severity == "doubt" for one in self.experiments for caveat in one.caveats)

    @property
    def failed(self) -> bool:
        """Tells whether any run failed."""
        rows = [row for one in self.experiments for row in one.rows]
        untimed = [one.failure for one in self.examined_runs] + [one.failure for one in self.rehearsed_runs]
        return bool(self.failed_inspections) or any(untimed) or any(row.runs_failed for row in rows)


def summarise(loaded: LoadedSuite) -> Analysis:
    """The analysis of everything that was loaded."""
    experiments = []
    for text in loaded.experiments:
        all_runs = [run for run in loaded.runs if run.spec.experiment == text.name]
        if any(run.spec.timed for run in all_runs):
            experiments.append(_experiment(text.name, text.title, text.question, all_runs))
    return Analysis(
        path=loaded.path,
        name=loaded.name,
        title=loaded.title,
        about=loaded.about,
        experiments=tuple(experiments),
        notes=loaded.notes,
        inspected_runs=sum(run.spec.inspected for run in loaded.runs),
        failed_inspections=failed_inspections_of(loaded.runs),
        examined_runs=examined_runs_of(loaded.runs),
        rehearsed_runs=rehearsed_runs_of(loaded.runs),
        memory_accounts=memory_accounts_of(loaded.runs),
        memory_growth=tuple(one for run in loaded.runs if run.spec.timed for one in memory_growth_of(run)),
        files=run_files_of(loaded.runs),
    )


def _experiment(name: str, title: str, question: str, runs: Sequence[Run]) -> ExperimentAnalysis:
    arms = arms_of(runs)
    figures = {
        one.run.spec.name: run_figures(one.run, one.series, one.work.precision) for arm in arms for one in arm.measured
    }
    rows = tuple(_row(arm, arms, [figures[one.run.spec.name] for one in arm.measured]) for arm in arms)
    refusals = tuple(
        ScalingRefusal(row.label, row.scaling.refusal) for row in rows if row.scaling.refusal and row.mark != "failed"
    )
    axes = dict.fromkeys(axis for arm in arms for axis in arm.spec.axes)
    caveats = dict.fromkeys(caveat for row in rows for caveat in row.caveats)
    return ExperimentAnalysis(
        name,
        title,
        question,
        tuple(axes),
        rows,
        refusals,
        tuple(caveats),
        tuple(figures.values()),
        in_turns=compare_in_turns(arms),
        utilisation=utilisations_of(arms, runs, [row.step_seconds for row in rows]),
    )


def _row(arm: ArmRuns, arms: Sequence[ArmRuns], figures: Sequence[RunFigures]) -> ArmRow:
    step = estimate([one.median for one in arm.measured], arm.run_cv) if arm.measured else None
    loops = [one.series.loop_median() for one in arm.measured]
    known = [one for one in loops if one is not None]
    loop = estimate(known, arm.run_cv) if known else None
    samples = figures[0].samples_per_step if figures else None
    slowest = _slowest(figures)
    return ArmRow(
        label=arm.label,
        axes=arm.spec.axes,
        change=arm.change,
        ranks=arm.spec.world_size,
        device=arm.spec.device,
        mark=_mark(arm),
        reason=next((run.outcome.sentence for run in arm.runs if run.outcome and not run.measured), ""),
        runs=len(arm.measured),
        runs_failed=sum(run.outcome is not None and not run.measured for run in arm.runs),
        run_names=tuple(run.spec.name for run in arm.runs),
        warmup_steps=max((one.warmup_steps for one in figures), default=None),
        step_seconds=step,
        loop_seconds=loop,
        samples_per_second=_rate(samples, loop or step),
        samples_per_step=samples,
        micro_batches=_mean([one.micro_batches for one in figures]),
        variation=_mean([one.variation for one in figures]),
        p95_over_median=_mean([one.p95_over_median for one in figures]),
        skew_seconds=_mean([one.skew_seconds for one in figures]),
        slowest_rank=slowest[0] if slowest else None,
        slowest_share=slowest[1] if slowest else None,
        phase_seconds={name: _phase(figures, name) for name in PHASES},
        scaling=scaling_of(arm, arms),
        communication=communication_of(arm, arms, figures),
        collectives=figures[0].collectives if figures else (),
        memory=figures[0].memory if figures else Memory(),
        precision=figures[0].precision if figures else Precision(),
        first_loss=_loss(figures, 0),
        last_loss=_loss(figures, -1),
        skipped_steps=sum(one.skipped_steps for one in figures),
        non_finite_steps=sum(one.non_finite_steps for one in figures),
        caveats=(*caveats_of(arm), *filter(None, [other_hosts(arm, arms)])),
        blocked_seconds=_mean([rank.collective_seconds for one in figures for rank in one.ranks]),
        between_seconds=_mean([rank.between_seconds for one in figures for rank in one.ranks]),
        gpu_busy_share=_mean([gpu_busy_share(one.run) for one in arm.measured]),
        memory_share=_memory_share(arm, figures),
        relation=arm.measured[0].series.relation if arm.measured else None,
        modules=figures[0].modules if figures else NOTHING_SEEN,
        hosts=tuple(dict.fromkeys(host for run in arm.runs if run.spec.nodes for host in run.hosts)),
    )


def _mark(arm: ArmRuns) -> Mark:
    if not arm.measured:
        return "failed" if any(run.outcome for run in arm.runs) else "unfinished"
    if arm.spec.emulated:
        return "emulated"
    return "oversubscribed" if arm.spec.oversubscribed else "measured"


def _memory_share(arm: ArmRuns, figures: Sequence[RunFigures]) -> float | None:
    reserved = figures[0].memory.cuda_peak_reserved_bytes if figures else None
    capacity = gpu_bytes_per_rank(arm.measured[0].run) if arm.measured else None
    return reserved / capacity if reserved and capacity else None


def _rate(samples: float | None, time: Estimate | None) -> Estimate | None:
    if samples is None or time is None:
        return None
    return time.through(lambda seconds: samples / seconds, positive=True)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _phase(figures: Sequence[RunFigures], name: str) -> float | None:
    return _mean([rank.phase_seconds[name] for one in figures for rank in one.ranks])


def _slowest(figures: Sequence[RunFigures]) -> tuple[int, float] | None:
    """The rank that was slowest most often, over all runs; None if there is only one."""
    shares: dict[int, list[float]] = {}
    for one in figures:
        for rank in one.ranks:
            shares.setdefault(rank.rank, []).append(rank.slowest_share)
    if len(shares) < 2:
        return None
    return max(((rank, mean(values)) for rank, values in shares.items()), key=lambda item: item[1])


def _loss(figures: Sequence[RunFigures], index: int) -> float | None:
    """The first or last recorded loss; on a GPU not every step's loss is read."""
    seen = [loss for loss in figures[0].losses if loss is not None] if figures else []
    return seen[index] if seen else None


Lines = tuple[str, list[str]]  # what was made, empty if nothing was; what failed, run by run


def untimed_lines(analysis: Analysis) -> list[str]:
    """Each kind of run, with those of its runs that failed."""
    return [line for made, failed in _kinds(analysis) for line in (*([made] if made else []), *failed)]


def untimed_runs(analysis: Analysis) -> list[str]:
    """Each kind of run alone, for callers that name failed runs elsewhere."""
    return [made for made, _ in _kinds(analysis) if made]


def _kinds(analysis: Analysis) -> tuple[Lines, ...]:
    return _inspected(analysis), _examined(analysis), _rehearsed(analysis)


def _inspected(analysis: Analysis) -> Lines:
    """Tells how many runs were inspected, and which of them show nothing."""
    count, failed = analysis.inspected_runs, analysis.failed_inspections
    if not count:
        return "", []
    runs = f"{count} run{' was' if count == 1 else 's were'} inspected and not timed"
    failures = [one_sentence(f"inspection {one.run} shows nothing: {one.reason}") for one in failed]
    return f"{runs}{f', {len(failed)} of them failed' if failed else ''}.", failures


def _examined(analysis: Analysis) -> Lines:
    """The runs that a diagnosis rests on."""
    runs = [f"{one.run} ({', '.join(one.changed)})" if one.changed else one.run for one in analysis.examined_runs]
    ended = [
        one_sentence(f"examined run {one.run} failed: {one.failure}") for one in analysis.examined_runs if one.failure
    ]
    return f"Examined, not measured, and in no table: {', '.join(runs)}." if runs else "", ended


def _rehearsed(analysis: Analysis) -> Lines:
    """Tells which rehearsals represented ranks that are not here, and which of them failed."""
    good = [one for one in analysis.rehearsed_runs if not one.failure]
    stood = ", ".join(f"{one.run} ({one.company} of {one.ranks} ranks)" for one in good)
    failures = [
        one_sentence(f"rehearsal {one.run} shows nothing: {one.failure}")
        for one in analysis.rehearsed_runs
        if one.failure
    ]
    return f"Rehearsed, not measured, and in no table: {stood}." if good else "", failures
