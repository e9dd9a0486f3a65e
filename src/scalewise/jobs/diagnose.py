"""Diagnoses a script: runs it once under examination, lets the checks judge, and replays what they suspect."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalewise.analysis.run_files import RunFiles, files_lines, read_lines, run_files_of
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Diagnosis
from scalewise.doctor.replay import Make, plan_replays, replay_findings
from scalewise.doctor.run_checks import diagnosis_of
from scalewise.errors import BadRequest
from scalewise.jobs.failure_messages import needs_gpu, no_steps, refusal, script_words
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.reporter import Job, Reporter
from scalewise.jobs.requests import ScriptRequest
from scalewise.launch.campaign import Listener, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.experiment import Examination, Suite
from scalewise.plan.python_file import check_is_python, starts_ranks_itself
from scalewise.records.examination import LauncherRow
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.spec import Change, RunSpec

FOUND = 2  # exit code, also for a script that failed


@dataclass(frozen=True)
class DiagnoseRequest(ScriptRequest):
    """The script that the doctor examines, and the options for it."""

    limit_seconds: float = 60.0
    stall_seconds: float = 20.0
    ranks: int = 2
    nodes: tuple[int, ...] = ()  # under Slurm, on how many hosts the ranks lie; empty: on this one
    plain: bool = False
    on_cpu: bool = False
    replays: bool = True
    changes: tuple[Change, ...] = ()  # made from outside in every run


@dataclass(frozen=True)
class ExaminedScript:
    """The result of an examination."""

    diagnosis: Diagnosis
    words: tuple[str, ...]  # the script's traceback or last lines of output, if it failed by itself
    exit_code: int
    files: tuple[RunFiles, ...] = ()  # of all its runs


def diagnose_script(request: DiagnoseRequest, reporter: Reporter) -> ExaminedScript:
    """Runs the script, and replays it with changes unless that is switched off, and returns what is wrong with it."""
    observing_suite(request)  # a request that cannot be done is refused before the machine is looked at
    check_is_python(request.script)
    if not request.plain and starts_ranks_itself(request.script):
        reporter.say(f"{request.script.name} starts its ranks itself: it is run as python {request.script.name}")
        request = replace(request, plain=True)
    reporter.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        folder, run = _observed(request, reporter, here)
        case = case_of(run)
        diagnosis = diagnosis_of(case)
        if request.replays:
            diagnosis = _replayed(case, diagnosis, folder, here, reporter)
    return _judged(request, run, case, diagnosis, run_files_of(load(folder.path).runs))


def observing_suite(request: DiagnoseRequest) -> Suite:
    """Returns a suite that has only the run for observation."""
    return request.suite(
        (1,) if request.plain else (request.ranks,),
        nodes=() if request.plain else request.nodes,
        launcher="slurm" if request.nodes else "fork",
        mode="python" if request.plain else "torchrun",
        examination=Examination(on_cpu=request.on_cpu),
        changes=(request.changes,),
    )


def _planned(request: DiagnoseRequest, reporter: Reporter, here: Here) -> tuple[SuiteFolder, RunSpec]:
    """Returns a new folder and the spec: data, machine and chance may differ from those of an earlier examination."""
    suite = observing_suite(request)
    try:
        plan = planned(suite, reporter, here)
    except BadRequest as problem:
        hint = "" if request.on_cpu else " Or examine it on CPU ranks: add --on cpu."
        raise BadRequest(problem.sentence, f"{problem.hint}{hint}") from None
    return suite_folder(suite, plan, here.facts, Where(request.out, again=True)), plan.runs[0]


def _observed(request: DiagnoseRequest, reporter: Reporter, here: Here) -> tuple[SuiteFolder, Run]:
    """Makes the run that the checks judge; makes it again as a plain process if its ranks start ranks themselves."""
    folder, spec = _planned(request, reporter, here)
    run = _made(spec, folder, here, reporter)
    if spec.mode == "python" or not launchers(run):
        return folder, run
    reporter.say(f"every rank has started ranks itself: once more, as python {request.script.name}")
    return _observed(replace(request, plain=True), reporter, here)


def launchers(run: Run) -> list[LauncherRow]:
    """Returns the places where the run's processes started others with torch.multiprocessing."""
    return [row for rank in run.ranks for row in rank.examination if isinstance(row, LauncherRow)]


def _made(spec: RunSpec, folder: SuiteFolder, here: Here, reporter: Reporter) -> Run:
    ranks = "as one plain process" if spec.mode == "python" else f"with {spec.ranks} ranks"
    reporter.say(f"observing {Path(spec.script).name} {ranks}, for {spec.limit_seconds:g} s at most")
    return examined_run(spec, folder, here, reporter)


def examined_run(spec: RunSpec, folder: SuiteFolder, here: Here, reporter: Reporter, job: Job = "diagnose") -> Run:
    """Makes one run that is looked into, and loads it.

    Raises a BadRequest if nothing can be said of it, and a KeyboardInterrupt if it was interrupted.
    """
    with reporter.runs(job) as progress:
        (outcome,) = run_campaign([spec], folder, here.facts, progress, here.servers)
    if outcome is None or outcome.kind == "interrupted":
        raise KeyboardInterrupt
    problem = refusal(outcome, spec)
    if problem is not None:
        raise problem
    return load(folder.run(spec.name).path).runs[0]


def _replayed(case: Case, diagnosis: Diagnosis, folder: SuiteFolder, here: Here, reporter: Reporter) -> Diagnosis:
    replays = plan_replays(case, diagnosis)
    if not replays:
        return diagnosis
    reporter.say(f"replaying with {', '.join(replay.change.label() for replay in replays)}")
    with reporter.runs("diagnose") as progress:
        return replay_findings(case, diagnosis, maker(folder, here, progress))


def maker(folder: SuiteFolder, here: Here, listener: Listener) -> Make:
    """Returns the function with which `replay_findings` makes runs; it leaves out runs that an interruption stopped."""

    def make(specs: Sequence[RunSpec]) -> tuple[Run, ...]:
        outcomes = run_campaign(specs, folder, here.facts, listener, here.servers)
        made = [spec for spec, end in zip(specs, outcomes, strict=True) if end and end.kind != "interrupted"]
        return tuple(run for spec in made for run in load(folder.run(spec.name).path).runs)

    return make


def _judged(
    request: DiagnoseRequest, run: Run, case: Case, diagnosis: Diagnosis, files: tuple[RunFiles, ...]
) -> ExaminedScript:
    outcome = run.outcome
    assert outcome is not None
    notes = [*diagnosis.notes, *files_lines(files), *read_lines(files)]
    if not request.on_cpu and needs_gpu(outcome):
        notes.append("The script wants a GPU that is not there; to examine it on CPU ranks, add: --on cpu")
    if not diagnosis.findings and not any(rank.windows for rank in case.ranks):
        problem = no_steps(outcome, run.spec, any(row.forked for row in launchers(run)))
        if problem is not None:
            raise problem
    through = outcome.measured or outcome.kind == "timed_out"
    return ExaminedScript(
        diagnosis=replace(diagnosis, notes=tuple(notes)),
        words=tuple(script_words(outcome)),
        exit_code=diagnosis.exit_code if through else FOUND,
        files=files,
    )
