"""From a script to a diagnosis: run it once under examination, let the checks judge, and replay what they suspect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalewise.analysis.run_files import RunFiles, files_lines, read_lines, run_files_of
from scalewise.cli.doctor_ends import needs_gpu, no_steps, refusal, script_words
from scalewise.cli.measure import Here, planned, suite_folder
from scalewise.cli.replays import maker
from scalewise.console.doctor_progress import DoctorProgress
from scalewise.console.output import Output
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.diagnose import diagnose
from scalewise.doctor.finding import Diagnosis
from scalewise.doctor.replay_plan import plan_replays
from scalewise.doctor.replay_verdict import replay_findings
from scalewise.errors import BadRequest
from scalewise.launch.campaign import run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.experiment import DeviceChoice, Examination, Suite
from scalewise.plan.python_file import check_is_python, starts_ranks_itself
from scalewise.plan.words import PLAIN, parse_changes, ranks_problem
from scalewise.records.examination import LauncherRow
from scalewise.records.folder import SuiteFolder
from scalewise.records.spec import Change, RunSpec
from scalewise.results.load import load
from scalewise.results.run import Run

FOUND = 2  # exit code; also of a script that did not get through


@dataclass(frozen=True)
class Request:
    """What a person asked the doctor."""

    script: Path
    args: tuple[str, ...]
    ranks: int
    plain: bool
    on_cpu: bool
    device: DeviceChoice
    limit_seconds: float
    stall_seconds: float
    replays: bool
    out: Path
    in_place: bool = False
    changes: tuple[Change, ...] = ()  # made from outside in every run


@dataclass(frozen=True)
class Examined:
    """What came of it."""

    diagnosis: Diagnosis
    words: tuple[str, ...]  # the script's own last words, where it failed by itself
    exit_code: int
    files: tuple[RunFiles, ...] = ()  # of all its runs


def requested(script: str | None, args: Sequence[str], options: Mapping[str, Any]) -> Request:
    """The request, or a BadRequest that says what is wrong with it."""
    if script is None:
        raise BadRequest("Which script?", "Name it: scalewise doctor train.py --ranks 2 -- ARGS")
    for name in ("limit", "stall"):
        if not 0 < options[name] < float("inf"):
            raise BadRequest(f"--{name} {options[name]:g} is not a time.", "Give a number of seconds above 0.")
    problem = ranks_problem(options["ranks"])
    if problem:
        raise BadRequest(f"--ranks: {problem}.", "Two ranks show most mistakes.")
    on_cpu = options["on"] == "cpu"
    if on_cpu and options["device"] == "cuda":
        raise BadRequest("--on cpu and --device cuda contradict each other.", "Leave one of them out.")
    return Request(
        script=Path(script),
        args=tuple(args),
        ranks=options["ranks"],
        plain=options["plain"],
        on_cpu=on_cpu,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        replays=not options["no_replay"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        changes=parse_changes(options.get("change") or PLAIN),
    )


def examine(request: Request, output: Output) -> Examined:
    """Runs the script, as often as it takes, and says what is wrong with it."""
    suite_of(request)  # a request that cannot be done is refused before the machine is looked at
    check_is_python(request.script)
    if not request.plain and starts_ranks_itself(request.script):
        output.say(f"{request.script.name} starts its ranks itself: it is run as python {request.script.name}")
        request = replace(request, plain=True)
    output.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        folder, run = _observed(request, output, here)
        case = case_of(run)
        diagnosis = diagnose(case)
        if request.replays:
            diagnosis = _replayed(case, diagnosis, folder, here, output)
    return _judged(request, run, case, diagnosis, run_files_of(load(folder.path).runs))


def suite_of(request: Request) -> Suite:
    """The one run that observes, as a suite."""
    return script_suite(
        request.script,
        request.args,
        ranks=(1,) if request.plain else (request.ranks,),
        mode="python" if request.plain else "torchrun",
        device=request.device,
        limit_seconds=request.limit_seconds,
        stall_seconds=request.stall_seconds,
        examination=Examination(on_cpu=request.on_cpu),
        in_place=request.in_place,
        changes=(request.changes,),
    )


def _planned(request: Request, output: Output, here: Here) -> tuple[SuiteFolder, RunSpec]:
    """Every examination has a folder of its own: data, machine and luck may differ from the last one's."""
    suite = suite_of(request)
    try:
        plan = planned(suite, output, here)
    except BadRequest as problem:
        hint = "" if request.on_cpu else " Or examine it on CPU ranks: add --on cpu."
        raise BadRequest(problem.sentence, f"{problem.hint}{hint}") from None
    return suite_folder(suite, plan, here.facts, request.out, again=True), plan.runs[0]


def _observed(request: Request, output: Output, here: Here) -> tuple[SuiteFolder, Run]:
    """The one run that the checks judge; made again as a plain process when its ranks prove to start ranks."""
    folder, spec = _planned(request, output, here)
    run = _made(spec, folder, here, output)
    if spec.mode == "python" or not launchers(run):
        return folder, run
    output.say(f"every rank has started ranks itself: once more, as python {request.script.name}")
    return _observed(replace(request, plain=True), output, here)


def launchers(run: Run) -> list[LauncherRow]:
    """Where its processes started others."""
    return [row for rank in run.ranks for row in rank.examination if isinstance(row, LauncherRow)]


def _made(spec: RunSpec, folder: SuiteFolder, here: Here, output: Output) -> Run:
    ranks = "as one plain process" if spec.mode == "python" else f"with {spec.ranks} ranks"
    output.say(f"observing {Path(spec.script).name} {ranks}, for {spec.limit_seconds:g} s at most")
    with DoctorProgress(output) as progress:
        (outcome,) = run_campaign([spec], folder, here.facts, progress, here.servers)
    if outcome is None or outcome.kind == "interrupted":
        raise KeyboardInterrupt
    problem = refusal(outcome, spec)
    if problem is not None:
        raise problem
    return load(folder.run(spec.name).path).runs[0]


def _replayed(case: Case, diagnosis: Diagnosis, folder: SuiteFolder, here: Here, output: Output) -> Diagnosis:
    replays = plan_replays(case, diagnosis)
    if not replays:
        return diagnosis
    output.say(f"replaying with {', '.join(replay.remedy.label() for replay in replays)}")
    with DoctorProgress(output) as progress:
        return replay_findings(case, diagnosis, maker(folder, here, progress))


def _judged(request: Request, run: Run, case: Case, diagnosis: Diagnosis, files: tuple[RunFiles, ...]) -> Examined:
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
    return Examined(
        diagnosis=replace(diagnosis, notes=tuple(notes)),
        words=tuple(script_words(outcome)),
        exit_code=diagnosis.exit_code if through else FOUND,
        files=files,
    )
