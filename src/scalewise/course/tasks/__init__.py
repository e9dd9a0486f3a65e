"""The tasks of the course's sheets that a script can be checked against, by name."""

from pathlib import Path

from scalewise.course.tasks.ddp_tasks import CODE_1, CODE_2, CODE_3, HOMEWORK1
from scalewise.course.tasks.layer_tasks import HOMEWORK3, PRACTICAL5, PRACTICAL8
from scalewise.course.tasks.requirement import Task
from scalewise.errors import BadRequest, did_you_mean
from scalewise.units import with_capital

TASKS = (HOMEWORK1, CODE_1, CODE_2, CODE_3, PRACTICAL5, PRACTICAL8, HOMEWORK3)
EITHER_CODE = "practical7"  # the check chooses by what the script does
SHEETS = {HOMEWORK1.name: "practical6"}  # another sheet that asks for the same script


def task_named(name: str) -> Task:
    """Returns the task of that name, or the one that a script of the course belongs to."""
    wanted = CODE_1.name if name == EITHER_CODE else Path(name).name.removesuffix(".py")
    for task in TASKS:
        if wanted in (task.name, task.script, SHEETS.get(task.name)):
            return task
    names = (*(task.name for task in TASKS), EITHER_CODE, *SHEETS.values(), *(task.script for task in TASKS))
    near = did_you_mean(name, names)
    listed = ", ".join(sorted(names[: len(TASKS) + 1 + len(SHEETS)]))
    raise BadRequest(f"The course has no task {name[:80]!r}.", f"{with_capital(near)} Tasks: {listed}".strip())
