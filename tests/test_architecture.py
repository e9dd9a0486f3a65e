"""The rules of the house: imports go down the stairs, torch stays in its rooms, files and functions stay short."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import scalewise

ROOT = Path(scalewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLOOR = {"errors", "units", "records"}
STAIRS = ["plan", "launch", "results", "analysis", "predict", "doctor", "report", "course", "jobs", "console", "cli"]
IN_A_RANK = ("watch", "subjects")  # rooms whose code runs inside a rank
WATCH_MAY_IMPORT = {"records", "errors", "watch"}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager"}
# First words of texts that go on from the name above them ("Of the first device", "Where the rank starts").
FRAGMENT_WORDS = (
    "of as from where in by that than or and but with without for to at on into over under between beside among after "
    "before until till since while when whether if how which who whose what whatever why because so also now likewise "
    "none nothing not then here there them they it its their his her he she this these those such same more most less "
    "least both either neither only even still again rather instead otherwise else"
)

# One name, one thing. Public functions that may have the same name in several files, and why:
INTERFACES = [  # each file of a kind has one
    "build",  # a section of a report
    "examine",  # a check of the doctor
    "install",  # a part of the watcher
    "main",  # a program
    "settle",  # a check of the doctor, once its replay is made
    "summary",  # the first page of one of the course's reports
]
VERBS = ["check", "compare", "measure", "rehearse", "show"]  # a verb: on the command line, in Python, and its job
# Files that may have the same name, and where. In `watch`, one thing of torch has a file in each folder that deals with
# it: a hook for its time, notes for the doctor, a stand-in on the CPU. `predictions` is one file for each homework.
FILES_OF_ONE_NAME = {
    "backward": ["watch/examination", "watch/hooks"],
    "collectives": ["records", "watch/emulation", "watch/examination", "watch/hooks"],
    "compiling": ["watch/examination", "watch/redirect"],
    "data": ["watch/examination", "watch/hooks"],
    "data_parallel": ["doctor/checks", "subjects", "watch/redirect"],
    "devices": ["watch/examination", "watch/redirect"],
    "forward": ["watch/examination", "watch/hooks"],
    "gradients": ["watch/examination", "watch/inspection"],
    "group": ["watch/hooks", "watch/rehearsal"],
    "groups": ["watch/examination", "watch/redirect"],
    "inspection": ["analysis", "records"],
    "layers": ["course/homework3", "subjects"],
    "machine": ["jobs", "records"],
    "memory": ["course", "watch/hooks", "watch/redirect"],
    "optimizer": ["watch/examination", "watch/hooks"],
    "precision": ["watch/examination", "watch/redirect"],
    "predictions": ["course", "course/homework1", "course/homework2", "course/homework3", "course/practical7"],
    "streams": ["watch/redirect", "watch/rehearsal"],
    "tensors": ["watch/examination", "watch/redirect"],
    "utilisation": ["analysis", "records"],
    "workers": ["watch/changes", "watch/examination"],
    "wrappers": ["watch/examination", "watch/redirect"],
}


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return Path(parts[0]).stem


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module the file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.update((node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(found)


def roots_imported(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def rooms_imported(path: Path) -> set[str]:
    names = {name.split(".")[1] for name in imports(path) if name.startswith("scalewise.")}
    return {name for name in names if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rooms_above(path: Path) -> set[str]:
    """Rooms that the file imports and may not."""
    own = room(path)
    if own == "watch":
        return rooms_imported(path) - WATCH_MAY_IMPORT
    if own == "subjects":
        return {"scalewise"} & roots_imported(path)
    if own in FLOOR:
        return rooms_imported(path) - FLOOR
    if own in STAIRS:
        return rooms_imported(path) - {*FLOOR, *STAIRS[: STAIRS.index(own) + 1]}
    return set() if own in ("__init__", "__main__", "suites") else {f"{own} has no place on the stairs"}


def too_much_for_its_process(path: Path) -> set[str]:
    """Packages that the file imports and may not, because of the process that its code runs in."""
    roots, known = roots_imported(path), {*sys.stdlib_module_names, "scalewise"}
    if room(path) == "subjects":  # an optimizer or a wrapper of another library may be a subject
        return set()
    if room(path) in IN_A_RANK:
        return roots - known - {"torch", "numpy"}
    return roots - known if room(path) == "records" else roots & {"torch"}


def test_imports_go_down_the_stairs():
    assert {ids(path): above for path in FILES if (above := rooms_above(path))} == {}


def test_a_rank_needs_only_torch_numpy_and_the_standard_library():
    assert {ids(path): more for path in FILES if (more := too_much_for_its_process(path))} == {}


def test_only_the_command_line_parses_words_and_only_the_console_knows_a_terminal():
    for package, rooms in (("click", {"cli"}), ("rich", {"console"})):
        assert {room(path) for path in FILES if package in roots_imported(path)} == rooms


def test_every_file_says_what_it_is():
    assert [ids(path) for path in FILES if not ast.get_docstring(parsed(path))] == []


def is_command(node: ast.AST) -> bool:
    """True for a verb of the command line, whose docstring is its help text and follows its name there."""
    calls = [one.func if isinstance(one, ast.Call) else one for one in getattr(node, "decorator_list", ())]
    return any(isinstance(one, ast.Attribute) and one.attr in ("command", "group") for one in calls)


def fragments(tree: ast.Module) -> list[str]:
    """The docstrings that do not stand alone, as a tool shows them where the name is not beside them."""
    found, words = [], set(FRAGMENT_WORDS.split())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not is_command(node):
            text = ast.get_docstring(node) or ""
            first = re.match(r"\W*([A-Za-z]+)", text)
            if first and first[1].lower() in words:
                found.append(f"{getattr(node, 'name', 'module')}: {text.splitlines()[0]}")
    return found


def test_docstrings_are_sentences_that_stand_alone():
    assert {ids(path): texts for path in FILES if (texts := fragments(parsed(path)))} == {}


def test_a_docstring_that_goes_on_from_a_name_is_found():
    tree = ast.parse(
        '"""Rows of a table."""\n'
        "class Row:\n"
        '    def first(self):\n        """Of the first device."""\n'
        '    async def second(self):\n        """Returns the second."""\n'
        '@verbs.command("go")\ndef go():\n    """What there is."""\n'
        '@cache\ndef stay():\n    """Whether it stays."""\n'
    )
    assert sorted(fragments(tree)) == ["first: Of the first device.", "stay: Whether it stays."]


def test_files_are_short():
    lengths = {ids(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert len(lengths) > 300
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_files_have_telling_names():
    assert [ids(path) for path in FILES if FORBIDDEN_NAMES & {path.stem, path.parent.name}] == []


def homonyms(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that occur in more than one place, with the places."""
    places: dict[str, list[str]] = {}
    for name, place in names:
        places.setdefault(name, []).append(place)
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def public_names(*kinds: type[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Public names at the top of files, with the file; the scripts of `subjects` stand alone and do not count."""
    for path in FILES:
        if room(path) != "subjects":
            for node in parsed(path).body:
                if isinstance(node, kinds) and not node.name.startswith("_"):
                    yield node.name, ids(path)


def test_a_name_in_two_files_is_a_homonym():
    assert homonyms([("Span", "b"), ("Line", "a"), ("Span", "a")]) == {"Span": ["a", "b"]}


def test_a_class_has_a_name_of_its_own():
    assert homonyms(public_names(ast.ClassDef)) == {}


def test_a_function_has_a_name_of_its_own_unless_it_is_part_of_an_interface():
    assert (sorted(INTERFACES), sorted(VERBS)) == (INTERFACES, VERBS)
    found, allowed = homonyms(public_names(ast.FunctionDef, ast.AsyncFunctionDef)), {*INTERFACES, *VERBS}
    assert {name: places for name, places in found.items() if name not in allowed} == {}, "new homonyms"
    assert allowed - {*found} == set(), "no longer needed in the list"


def test_a_file_has_a_name_of_its_own_unless_it_is_the_other_side_of_a_thing():
    found = homonyms((path.stem, str(path.parent.relative_to(ROOT))) for path in FILES if path.stem != "__init__")
    assert list(FILES_OF_ONE_NAME) == sorted(FILES_OF_ONE_NAME)
    assert found == FILES_OF_ONE_NAME  # neither a new one nor one that is no longer there


def test_functions_are_short():
    lengths = {}
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lengths[f"{ids(path)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    too_long = {name: length for name, length in lengths.items() if length > 60}
    assert not too_long
    assert sum(length < 30 for length in lengths.values()) >= 0.9 * len(lengths)


@pytest.mark.processes
def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from scalewise.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'rich', 'psutil', 'pynvml', 'matplotlib', 'typst'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"
