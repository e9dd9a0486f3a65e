"""Finds a suite by the name of a built-in one, or by the path of a TOML file."""

from pathlib import Path

from scalewise.errors import BadRequest, did_you_mean


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
    raise BadRequest(f"There is no suite {name_or_path!r}.", f"{near[:1].upper()}{near[1:]} {choices}".strip())


def _beside(path: Path) -> list[Path]:
    try:
        return sorted(path.parent.glob("*.toml"))[:100]
    except OSError:
        return []
