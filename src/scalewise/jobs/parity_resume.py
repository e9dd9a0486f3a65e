"""Compares a run with one that is ended after its first checkpoint and started again."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from scalewise.agreement.compare_runs import parity_of
from scalewise.agreement.parity_answer import ParityAnswer
from scalewise.agreement.resumed import resumed_at, resumed_verdict, shifted
from scalewise.doctor.case import case_of
from scalewise.jobs.parity_runs import ParityRuns, Untold
from scalewise.plan.parity_specs import SEEDED, compared_spec, stop_change
from scalewise.records.load import Run
from scalewise.records.notes import SaveNote
from scalewise.units import counted

MOST_FILES = 20_000  # of the working folder, which is laid out once more for the run that goes on


def resume_answer(runs: ParityRuns) -> ParityAnswer:
    """Runs the script through, then to its first checkpoint, then on from there, and compares step by step."""
    name = runs.request.script.name
    notes: list[str] = []
    answer = ParityAnswer(
        name, runs.request.ranks, "untold", "", reference="the run without a stop", other="the resumed run"
    )
    try:
        return _compared(runs, answer, notes)
    except Untold as reason:
        sentence = f"It cannot be told whether {name} goes on as if it had not been stopped, because {reason}."
        return replace(answer, sentence=sentence, notes=tuple(notes))


def _compared(runs: ParityRuns, answer: ParityAnswer, notes: list[str]) -> ParityAnswer:
    steps = 2 * runs.request.steps
    through = runs.make_compared(
        compared_spec(runs.together, "through", steps, always=SEEDED), "the run without a stop"
    )
    saved = _saved_after(through.run)
    if saved is None:
        raise Untold(
            f"the script saved nothing with torch.save after a step, within its first {counted(through.steps, 'step')} "
            "(--steps N compares 2 N)"
        )
    if saved >= through.steps:
        raise Untold(f"its first checkpoint comes after step {saved}, and nothing follows it (--steps N compares 2 N)")
    stopped = runs.make(compared_spec(runs.together, "stopped", steps, (stop_change(saved),), always=SEEDED))
    cwd = _folder_of_second_run(runs, stopped)
    spec = replace(runs.together, cwd=str(cwd), folder_use="in_place")
    if runs.request.resume_args:
        spec = replace(spec, args=runs.request.resume_args)
    resumed = runs.make_compared(
        compared_spec(spec, "resumed", through.steps - saved, always=SEEDED), "the run that goes on"
    )
    at = resumed_at(through, resumed)
    notes.append(f"The first checkpoint was written after step {saved}; the run was ended, and started again.")
    if at is None:
        raise Untold("the parameters with which it goes on are those of no step of the run without a stop")
    notes.append(
        "It starts from the beginning: it has not read its checkpoint (--resume-args gives it other arguments)."
        if at == 0
        else f"It goes on with the parameters that there were before step {at + 1}."
    )
    if at == 0:
        raise Untold("the script starts from the beginning and does not go on from what it saved")
    reference = shifted(through, at)
    compared = parity_of(reference, resumed, None)
    verdict = resumed_verdict(reference, resumed, compared, at, through)
    return replace(
        answer,
        kind=verdict.kind,
        sentence=verdict.sentence,
        cause=verdict.cause,
        first_step=at + 1,
        compared=compared,
        notes=(*notes, *verdict.notes),
    )


def _saved_after(run: Run) -> int | None:
    """The number of steps before the first file that was saved, of rank 0 or of any."""
    windows = [window for rank in case_of(run).ranks for window in (*rank.windows, rank.rest)]
    return min((one.number for one in windows if one.number and one.all(SaveNote)), default=None)


def _folder_of_second_run(runs: ParityRuns, stopped: Run) -> Path:
    """The working folder as the stopped run left it: links to its files, and copies of what the run wrote."""
    here, there = Path(runs.together.cwd).resolve(), runs.folder.path.resolve() / "resumed-folder"
    count = 0
    for place, names, files in os.walk(here):
        folder = Path(place)
        names[:] = [one for one in names if not one.startswith(".") and folder / one != there.parent.parent]
        target = there / folder.relative_to(here)
        target.mkdir(parents=True, exist_ok=True)
        count += len(files)
        if count > MOST_FILES:
            raise Untold(f"the working folder holds more than {MOST_FILES:,} files: start it from one that holds less")
        for file in files:
            (target / file).symlink_to((folder / file).resolve())
    written = runs.folder.run(stopped.spec.name).files
    if written.is_dir():
        for source in written.rglob("*"):
            target = there / source.relative_to(written)
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.unlink(missing_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    return there
