"""Checks a script against a task: runs it as the task needs, and Code 1 for comparison, and judges the requirements."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalewise.analysis.inspected_run import inspection_of
from scalewise.course.tasks import EITHER_CODE
from scalewise.course.tasks.ddp_tasks import CODE_1, RATE, code_of, constants_of
from scalewise.course.tasks.requirement import Seen, Task, TaskVerdict, judge_task
from scalewise.doctor.case import case_of
from scalewise.errors import BadRequest
from scalewise.jobs.diagnose import examined_run
from scalewise.jobs.failure_messages import needs_gpu, script_words
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.reporter import Reporter
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.experiment import DeviceChoice, Examination, Suite
from scalewise.plan.find import course_folder
from scalewise.plan.python_file import check_is_python, source_text, starts_ranks_itself
from scalewise.records.examination import PlaceRow
from scalewise.records.load import Run
from scalewise.records.spec import Examined
from scalewise.units import counted, one_sentence

LOOKED_INTO_STEPS = 3  # of an inspected run: each layer waits for its device, so a step takes long
_FRAME = re.compile(r'File "(.+)", line (\d+),? in (\S+)')
_RANK = re.compile(r"^\[rank\d+\]: ")  # torch puts it before each line of a traceback
NONE_MADE = "made no optimizer step: there is nothing to check"


@dataclass(frozen=True)
class CheckRequest:
    """The request to check one script against one task."""

    name: str  # the name of the task, as the user wrote it
    task: Task
    script: Path
    args: tuple[str, ...]
    ranks: int
    on_cpu: bool
    limit_seconds: float
    out: Path
    device: DeviceChoice = "auto"


@dataclass(frozen=True)
class _Wanted:
    """The script and settings of one run that is to be made."""

    script: Path
    args: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    shown: int = 0  # number of GPUs that the script sees; 0: those of the machine


def check(request: CheckRequest, reporter: Reporter) -> TaskVerdict:
    """Runs the script, and Code 1 beside it where losses are compared, and judges every requirement of the task."""
    _suite(request, _Wanted(request.script, request.args))  # refuses a missing script before the machine is looked at
    check_is_python(request.script)
    reporter.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        gpus = 0 if request.device == "cpu" else len(here.facts.gpus)
        if gpus < request.ranks and request.device != "cuda":
            request = replace(request, on_cpu=True)
            reporter.say(f"{gpus} GPUs for {counted(request.ranks, 'rank')}: CPU cores stand in")
        runs: dict[int, Run] = {}
        for shown in request.task.shown or (0,):
            constants = {"LR": os.environ.get("LR", RATE)} if request.task.compared else {}
            wanted = _Wanted(request.script, request.args, constants, shown)
            runs[shown] = run = _made(request, wanted, here, reporter)
            failure = _failure(request, run)
            if failure is not None:
                return failure
        seen = _seen(runs)
        task = code_of(seen) if request.name == EITHER_CODE else request.task
        if task.compared:
            seen = _beside_code_1(request, seen, here, reporter)
    return TaskVerdict(
        task, str(request.script), judge_task(task, seen), setting=_setting(seen), folder=str(_last(runs).folder)
    )


def _suite(request: CheckRequest, wanted: _Wanted) -> Suite:
    plain = request.task.plain or starts_ranks_itself(wanted.script)
    # If the script sees several GPUs, stand-ins take the place of those that are missing, and a few steps are enough.
    on_cpu = request.on_cpu and not wanted.shown
    suite = script_suite(
        wanted.script,
        wanted.args,
        ranks=(1,) if plain else (request.ranks,),
        mode="python" if plain else "torchrun",
        devices=wanted.shown,
        device="cpu" if request.on_cpu and wanted.shown else request.device,
        limit_seconds=request.limit_seconds,
        stall_seconds=max(20.0, request.limit_seconds / 3),
        examination=Examination(on_cpu=on_cpu, enough_steps=LOOKED_INTO_STEPS if wanted.shown else 0),
    )
    (experiment,) = suite.experiments
    return replace(suite, experiments=(replace(experiment, env=dict(wanted.constants)),))


def _made(request: CheckRequest, wanted: _Wanted, here: Here, reporter: Reporter) -> Run:
    """Makes one run and loads it; raises a BadRequest if the request is to blame and not the script."""
    suite = _suite(request, wanted)
    plan = planned(suite, reporter, here)
    folder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))
    spec = replace(plan.runs[0], kind=Examined(inspected=bool(wanted.shown)))
    how = f" and {wanted.shown} GPUs" if wanted.shown else ""
    process = "one process" if spec.mode == "python" else f"{spec.ranks} ranks"
    reporter.say(f"running {wanted.script.name} with {process}{how}, for {spec.limit_seconds:g} s at most")
    try:
        return examined_run(spec, folder, here, reporter)
    except BadRequest as problem:
        hint = problem.hint.replace("scalewise doctor", f"scalewise check {request.name}")
        raise BadRequest(problem.sentence, hint) from None


def _failure(request: CheckRequest, run: Run) -> TaskVerdict | None:
    """The verdict on a script whose run did not get as far as training that can be judged; None if it did."""
    outcome, name = run.outcome, request.script.name
    assert outcome is not None
    trained = any(rank.steps for rank in run.ranks)
    if trained and (outcome.measured or outcome.kind == "timed_out"):
        return None
    if outcome.measured or outcome.kind == "no_steps":
        sentence = f"{name} {NONE_MADE}."
    elif outcome.kind == "timed_out":
        sentence = f"{name} reached no optimizer step within {request.limit_seconds:g} s; --limit raises that."
    elif needs_gpu(outcome):
        sentence = f"{name} failed because it wants a GPU that is not there: it has no path for the CPU."
    else:
        sentence = f"{name} failed, so nothing of it is checked: {_ended(outcome.sentence)}"
    words = [line for line in script_words(outcome) if line.strip()]
    last = _RANK.sub("", words[-1].strip()) if words else _last_printed(run)
    end = outcome.first_failed
    if end is not None and end.exception == "EOFError":  # raised by input() at the end of an empty stdin
        sentence += " It asks for typed input, which it cannot get here."
    where = _stood(request.script, words or next((end.stack for end in outcome.ranks if end.stack), ()))
    return TaskVerdict(request.task, str(request.script), (), sentence, last, where, folder=str(run.folder))


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(("?", "!")) else one_sentence(sentence)


def _stood(script: Path, lines: Sequence[str]) -> PlaceRow | None:
    """The script's innermost line in a traceback, which ends with it, or in a stack, which begins with it."""
    frames = [found for found in map(_FRAME.search, lines) if found and Path(found[1]).name == script.name]
    if not frames:
        return None
    innermost = frames[-1] if any("Traceback" in line for line in lines) else frames[0]
    number = int(innermost[2])
    text = source_text(script.read_bytes()).splitlines()
    return PlaceRow(-1, str(script), number, innermost[3], text[number - 1].strip() if number <= len(text) else "")


def _last_printed(run: Run) -> str:
    lines = [line for line in _stdout(run, 0) if line.strip()]
    return lines[-1].strip() if lines else ""


def _stdout(run: Run, rank: int) -> list[str]:
    try:
        return (run.folder / f"rank{rank}.stdout.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _seen(runs: Mapping[int, Run]) -> Seen:
    run = _last(runs)
    return Seen(
        case=case_of(run),
        text=source_text(Path(run.spec.script).read_bytes()),
        shown={shown: inspection_of(one) for shown, one in runs.items() if shown},
        printed=tuple(len(_stdout(run, rank.rank)) for rank in run.ranks),
        cut_short=run.outcome is not None and run.outcome.kind == "timed_out",
    )


def _last(runs: Mapping[int, Run]) -> Run:
    return runs[max(runs)]


def _beside_code_1(request: CheckRequest, seen: Seen, here: Here, reporter: Reporter) -> Seen:
    """Adds a run of the course's Code 1 with the constants seen in the script, or the reason why there is none."""
    constants = constants_of(seen)
    if isinstance(constants, str):
        return replace(seen, no_reference=constants)
    reporter.say(f"Code 1 beside it: {' '.join(f'{name}={value}' for name, value in constants.items())}")
    same = replace(request, ranks=seen.case.world_size)
    run = _made(same, _Wanted(course_folder() / f"{CODE_1.script}.py", constants=constants), here, reporter)
    if not any(rank.steps for rank in run.ranks) or run.outcome is None:
        return replace(seen, no_reference="the course's Code 1 failed with the same constants")
    return replace(seen, reference=run)


def _setting(seen: Seen) -> str:
    run, steps = seen.case.run, len(seen.case.first.windows)
    ranks = "1 process" if run.spec.mode == "python" else f"{seen.case.world_size} ranks"
    shown = f", shown {' and '.join(map(str, seen.shown))} GPUs" if seen.shown else ""
    where = "CPU cores (in place of GPUs)" if run.spec.device == "cpu" else "GPUs"
    cut = ", ended at its limit (--limit gives it more time)" if seen.cut_short else ""
    return f"{ranks}, {counted(steps, 'step')}{shown}, on {where}{cut}"
