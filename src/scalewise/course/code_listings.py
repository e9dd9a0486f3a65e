"""Lines of a script that a task asks for, as listings of a report: a whole function, or what holds certain words."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from scalewise.analysis.evidence import Evidence
from scalewise.plan.find import course_folder
from scalewise.records.spec import AxisValue
from scalewise.report.document import Listing

AROUND = 1  # lines of context before and after the found lines
MOST_LISTED_LINES = 24
FAR = 8  # lines without any that matters: what follows is another stretch


def function_listing(
    evidence: Evidence, experiment: str, name: str, *, id: str, title: str, marks: Sequence[str] = (), **axes: AxisValue
) -> Listing | None:
    """Returns a whole function, such as `LargeLinearModelMP.__init__`; None if it is missing or cannot be read.

    Lines that contain one of `marks` are marked.
    """
    read = _script(evidence, experiment, axes)
    if read is None:
        return None
    source, lines = read
    node = next((found for found in _functions(source, "\n".join(lines)) if found[0] == name), None)
    if node is None:
        return None
    return _listing(id, title, source, lines, range(node[1], node[2] + 1), marks)


def lines_listing(
    evidence: Evidence, experiment: str, marks: Sequence[str], *, id: str, title: str, **axes: AxisValue
) -> Listing | None:
    """Returns the code from the first to the last line that contains one of `marks`; None if there is none."""
    read = _script(evidence, experiment, axes)
    if read is None:
        return None
    source, lines = read
    found = [number for number, line in enumerate(lines, 1) if _marked(line, marks)]
    if not found:
        return None
    first, last = max(1, found[0] - AROUND), min(len(lines), found[-1] + AROUND)
    if last - first + 1 > MOST_LISTED_LINES:
        last = first + MOST_LISTED_LINES - 1
    return _listing(id, title, source, lines, range(first, last + 1), marks)


def stretch_listings(
    evidence: Evidence, experiment: str, marks: Sequence[str], *, id: str, title: str, **axes: AxisValue
) -> tuple[Listing, ...]:
    """All lines that hold one of `marks`, with what lies between them; lines far from the others make a listing apart.

    Nothing is cut off at the ends: a line that matters is in one of the listings, however long the script is.
    """
    read = _script(evidence, experiment, axes)
    if read is None:
        return ()
    source, lines = read
    stretches: list[range] = []
    for number in (number for number, line in enumerate(lines, 1) if _marked(line, marks)):
        before = stretches[-1] if stretches else None
        if before is not None and number - before.stop < FAR and number - before.start < MOST_LISTED_LINES:
            stretches[-1] = range(before.start, number + 1)
        else:
            stretches.append(range(number, number + 1))
    return tuple(
        _listing(f"{id}-{count}" if count else id, title, source, lines, stretch, marks)
        for count, stretch in enumerate(stretches)
    )


def _script(evidence: Evidence, experiment: str, axes: dict[str, AxisValue]) -> tuple[str, list[str]] | None:
    """Returns the name of the file that the experiment ran, and its lines.

    A run that was made on another machine has its path there; then the course's own script of that name stands in.
    """
    for run in evidence.loaded.runs:
        if run.spec.experiment != experiment:
            continue
        if all(str(run.spec.axes.get(key)) == str(value) for key, value in axes.items()):
            file = Path(run.spec.script)
            own = course_folder() / file.name
            if file.is_file() or not own.is_file():
                return _read(file, file.name)
            return _read(own, f"{file.name} as it is in the course (the one that ran is not on this machine)")
    return None


def _read(file: Path, source: str) -> tuple[str, list[str]] | None:
    try:
        return source, file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def _functions(source: str, text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (qualified name, first line, last line) of every function; none if the file is not Python."""
    try:
        tree = ast.parse(text, filename=source)
    except (SyntaxError, ValueError):
        return
    yield from _inside(tree, "")


def _inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child.lineno, child.end_lineno or child.lineno
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inside(child, f"{prefix}{child.name}.")


def _listing(id: str, title: str, source: str, lines: Sequence[str], numbers: range, marks: Sequence[str]) -> Listing:
    shown = [lines[number - 1] for number in numbers]
    indent = min((len(line) - len(line.lstrip()) for line in shown if line.strip()), default=0)
    return Listing(
        id=id,
        title=title,
        source=source,
        first_line=numbers.start,
        text="\n".join(line[indent:] for line in shown),
        marked=tuple(number for number in numbers if _marked(lines[number - 1], marks)),
    )


def _marked(line: str, marks: Sequence[str]) -> bool:
    return any(mark in line for mark in marks)


# Small enough for a script to take seconds. A student's own script that reads no constants runs unchanged.
