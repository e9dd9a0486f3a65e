"""Finds the file that a name means: a suite's, one of scalewise's own scripts, or one of the user's."""

from collections.abc import Mapping
from pathlib import Path

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import BUILT_IN, COURSE, subject_folder
from scalewise.plan.words import filled
from scalewise.records.spec import AxisValue
from scalewise.units import with_capital


def built_in_suites() -> dict[str, Path]:
    """The TOML files of the built-in suites by name: a suite of the course has a folder, any other only the file."""
    package = Path(__file__).resolve().parent.parent
    course = {file.parent.name: file for file in (package / "course").glob("*/suite.toml")}
    others = {file.stem: file for file in (package / "suites").glob("*.toml")}
    return dict(sorted({**course, **others}.items()))


def find_suite(name_or_path: str) -> Path:
    """The TOML file of that name or at that path; a built-in name is preferred, a path has a slash or an ending."""
    known = built_in_suites()
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if path.is_file():
        if path.suffix == ".toml":
            return path
        raise BadRequest(f"{name_or_path} is not a suite.", "A suite is a .toml file; a script to run is a .py file.")
    if path.is_dir():
        raise BadRequest(f"{name_or_path} is a folder, not a suite.", "To look at runs use: scalewise show FOLDER.")
    near = did_you_mean(path.name, [*known, *(file.name for file in _beside(path))])
    choices = f"Built-in suites: {', '.join(known)}." if known else "There are no built-in suites."
    raise BadRequest(f"There is no suite {name_or_path!r}.", f"{with_capital(near)} {choices}".strip())


def _beside(path: Path) -> list[Path]:
    try:
        return sorted(path.parent.glob("*.toml"))[:100]
    except OSError:
        return []


MOST_LETTERS = 300  # of a path in a sentence


def script_path(script: str, values: Mapping[str, AxisValue], cwd: Path) -> Path:
    """The file that the ranks run; a student's own copy under ./course is preferred to the project's."""
    name = filled(script, values)
    if name.startswith(BUILT_IN):
        return subject_folder() / f"{name.removeprefix(BUILT_IN)}.py"
    if name.startswith(COURSE):
        own = cwd / "course" / name.removeprefix(COURSE)
        return own if _is_file(own) else course_folder() / name.removeprefix(COURSE)
    return Path(name)


def script_problem(script: str, path: Path, cwd: Path) -> tuple[str, str] | None:
    """The reason why there is nothing to run at this path and what would help, or None if there is a file."""
    try:
        if path.is_file():
            return None
        what = "is a folder" if path.is_dir() else "does not exist"
    except OSError as error:  # a name that is too long, a folder that may not be entered
        what = f"cannot be looked at: {error.strerror}"
    if script.startswith(COURSE):
        known = {file.name for folder in (cwd / "course", course_folder()) for file in folder.glob("*.py")}
        near = did_you_mean(path.name, sorted(known))
        remedy = near or "run it from the project's own folder, or put the script into ./course"
        return f"the course has no script {_short(path.name)}", remedy
    return f"the script {_short(str(path))} {what}", "correct `script` in the suite"


def _short(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


def _is_file(path: Path) -> bool:
    """Tells whether a file is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def course_folder() -> Path:
    """The project's own folder course/, beside src/."""
    return Path(__file__).resolve().parents[3] / "course"
