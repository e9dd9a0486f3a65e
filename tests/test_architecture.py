"""The rules of the house: imports go down the stairs, torch stays in its rooms, and the page on the rooms is true."""

import ast
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import scalewise
from scalewise.course.homework import course_suites, pages_of
from scalewise.course.tasks import TASKS
from scalewise.doctor.finding import rules
from scalewise.launch.local import LAUNCHERS
from scalewise.records.changes import known_changes
from scalewise.records.spec import LauncherName, RunKind
from scalewise.report.build_document import SuitePages, section_modules

ROOT = Path(scalewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLOOR = {"errors", "units", "records"}
STAIRS = ["plan", "launch", "analysis", "predict", "doctor", "agreement", "report", "course", "jobs", "console", "cli"]
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

# One name, one thing. Public functions that may have the same name in several files, and the rooms where:
INTERFACES = {  # each file of a kind has one
    "build": {"course", "report"},  # a section of a report
    "examine": {"doctor"},  # a check of the doctor
    "install": {"watch"},  # a part of the watcher
    "main": {"cli", "course"},  # a program
    "settle": {"doctor"},  # a check of the doctor, once its replay is made
}
VERBS = [
    "check",
    "compare",
    "measure",
    "parity",
    "rehearse",
    "show",
    "strategies",
]  # a verb: on the command line, in Python, and its job
# Files that may have the same name, and where. In `watch`, one thing of torch has a file in each folder that deals with
# it: a hook for its time, notes for the doctor, a stand-in on the CPU.
FILES_OF_ONE_NAME = {
    "backward": ["watch/examination", "watch/hooks"],
    "collectives": ["records", "watch/examination", "watch/hooks"],
    "data": ["watch/examination", "watch/hooks"],
    "data_parallel": ["doctor/checks", "subjects"],
    "forward": ["watch/examination", "watch/hooks"],
    "gradients": ["watch/examination", "watch/inspection"],
    "group": ["watch/hooks", "watch/rehearsal"],
    "optimizer": ["watch/examination", "watch/hooks"],
    "parity": ["jobs", "records"],
    "streams": ["watch/redirect", "watch/rehearsal"],
    "tensors": ["watch/examination", "watch/redirect"],
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
    found = homonyms(public_names(ast.FunctionDef, ast.AsyncFunctionDef))
    rooms = {name: {Path(place).parts[0] for place in places} for name, places in found.items()}
    verbs = {name: places for name, places in rooms.items() if name in VERBS}
    assert {name: places for name, places in rooms.items() if name not in verbs} == INTERFACES
    assert list(verbs) == VERBS and all("jobs" in places <= {"cli", "jobs"} for places in verbs.values())


def test_a_file_has_a_name_of_its_own_unless_it_is_the_other_side_of_a_thing():
    found = homonyms((path.stem, str(path.parent.relative_to(ROOT))) for path in FILES if path.stem != "__init__")
    assert list(FILES_OF_ONE_NAME) == sorted(FILES_OF_ONE_NAME)
    assert found == FILES_OF_ONE_NAME  # neither a new one nor one that is no longer there


NO_PARSING = ("analysis", "report", "course", "console")  # rooms that are given values, and take no sentence apart
TAKES_APART = {"removeprefix", "removesuffix", "partition", "rpartition"}
CUTS = {"split", "rsplit", "strip", "lstrip", "rstrip"}  # with an argument; without one they only drop white space
# Functions that take a text apart all the same, and what the text is: never a sentence from which a value is got.
TEXTS_OF_OTHERS = {
    "course/handin_parts.py": {"": "how torchrun tells of a signal"},
    "course/homework3/h3_1_two_devices.py": {"_where": "a line of the script, without the comment at its end"},
    "course/predictions.py": {"asked": "what a user types"},
    "course/tasks/__init__.py": {"task_named": "the name of a file"},
    "course/tasks/ddp_tasks.py": {"_disabled": "the code of a script"},
    "course/tasks/layer_tasks.py": {"_number": "a device of torch, cuda:1"},
    "course/tasks/requirement.py": {"call_named": "a dotted name of Python"},
    "course/practical7/precision_sizes.py": {"weights": "an axis of the suite, 1024x2"},
    "report/build_document.py": {"_built": "the name of a module"},
    "report/sarif.py": {"sarif_log": "a URI", "_rule": "the name of a check"},
    "report/sections/closing.py": {"_torchrun_line": "the command line that a run folder keeps"},
    "report/write.py": {"parse_formats": "what a user types"},
}
SETS_TYPE = {  # functions that change how a text looks and get nothing out of it
    "course/measured_arms.py": {"words"},
    "report/canvas.py": {"_bare"},
    "report/draw_lines.py": {"_short"},
    "report/html.py": {"_prose", "_own_names", "lines"},
    "report/pdf.py": {"_listing"},
    "report/tables.py": {"file_name", "_interval", "_escaped"},
    "report/view.py": {"", "typeset", "_signs", "nonbreaking"},
}


def takes_apart(tree: ast.AST, function: str = "") -> Iterator[str]:
    """The functions in which a text is taken apart; empty for the top of the file."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = getattr(node.func.value, "id", ""), node.func.attr
            if owner == "re" or name in TAKES_APART or (name in CUTS and node.args):
                yield function
        yield from takes_apart(node, node.name if isinstance(node, ast.FunctionDef) else function)


def test_no_room_reads_a_value_out_of_a_sentence():
    found = {ids(path): {*takes_apart(parsed(path))} for path in FILES if room(path) in NO_PARSING}
    allowed = {name: {*functions} for name, functions in [*TEXTS_OF_OTHERS.items(), *SETS_TYPE.items()]}
    assert {name: functions for name, functions in found.items() if functions} == allowed


def test_a_sentence_that_is_taken_apart_is_found():
    tree = ast.parse(
        "def first(text):\n    return re.sub('a', 'b', text)\n"
        "def second(text):\n    def inner():\n        return text.removeprefix('No: ')\n    return inner()\n"
        "def third(text):\n    return text.rstrip('.')\n"
        "def fourth(text):\n    return ' '.join(text.split()).strip()\n"
    )
    assert [*takes_apart(tree)] == ["first", "inner", "third"]


def test_functions_are_short():
    lengths = {}
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lengths[f"{ids(path)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    too_long = {name: length for name, length in lengths.items() if length > 60}
    assert not too_long
    assert sum(length < 30 for length in lengths.values()) >= 0.9 * len(lengths)


REPOSITORY = ROOT.parent.parent
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
HISTORY = {"log.md"}  # says what was measured when files had other names
# Paths that a page names and that are not in the repository: folders and files of runs and of users.
PATHS_OF_RUNS = {"files/", ".view/", ".turns-RING/", "reports/", "runs/", "wild.toml"}
NAMED_PATH = re.compile(r"`([\w./{}*-]+(?:\.(?:py|toml|md|html|typ)|/))(?::\w+)?`")
LINK = re.compile(r"\]\(([^)#\s]+)")
KINDS = {kind.__name__: kind.__name__.lower() for kind in get_args(RunKind)}  # with the property of a spec that asks


@cache
def page(name: str = "docs/architecture.md") -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def part(heading: str) -> str:
    """The text of docs/architecture.md under a heading."""
    return re.split(rf"^## {heading}$", page(), flags=re.MULTILINE)[1].partition("\n## ")[0]


@cache
def paths_here() -> tuple[str, ...]:
    found = list(REPOSITORY.iterdir())
    for name in ("src", "tests", "docs", "bench", "course", "examples"):
        found += (REPOSITORY / name).rglob("*")
    return tuple(f"/{path.relative_to(REPOSITORY)}" for path in found if "__pycache__" not in path.parts)


@cache
def is_here(named: str) -> bool:
    """Whether a file or folder ends in this path; `{a}`, `NAME` and `*` stand for any text."""
    pattern = re.sub(r"\{\w+\}|NAME", "*", named.removeprefix("../").rstrip("/"))
    return bool(fnmatch.filter(paths_here(), f"*/{pattern}"))


def named_paths(text: str) -> list[str]:
    return sorted(set(NAMED_PATH.findall(text)))


def test_every_path_that_a_page_names_is_there():
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES if path.name not in HISTORY}
    missing = {name: path.name for path, text in texts.items() for name in named_paths(text) if not is_here(name)}
    links = [(path, link) for path, text in texts.items() for link in LINK.findall(text) if "://" not in link]
    assert sum(len(named_paths(text)) for text in texts.values()) > 200 and links, "nothing was looked at"
    assert missing.keys() - PATHS_OF_RUNS == set()
    assert PATHS_OF_RUNS - missing.keys() == set(), "no longer named"
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []


def test_a_path_that_is_not_there_is_noticed():
    text = "`plan/expand.py`, `plan/expanded.py`, `launch/`, `rank{N}.jsonl`, `watch/arm.py:arm_rank`, `course/NAME/`"
    assert {name for name in named_paths(text) if not is_here(name)} == {"plan/expanded.py"}


def test_the_list_of_folders_is_whole():
    block = page("CONTRIBUTING.md").partition("## Where things are\n\n")[2].partition("\n\n")[0]
    listed: list[tuple[int, str]] = []
    for line in block.splitlines():
        if (indent := len(line) - len(line.lstrip())) in (4, 6):
            listed += ((indent, name) for name in re.findall(r"[\w.]*[/.][\w/.]*|Makefile", line[4:26]))
    assert [name for indent, name in listed if indent == 4 and not (REPOSITORY / name).exists()] == []
    folders = {*STAIRS, *IN_A_RANK, "records", "suites"}
    assert {name for indent, name in listed if indent == 6} == {
        *(f"{name}/" for name in folders), "errors.py", "units.py"
    }  # fmt: skip


def test_the_stairs_are_as_drawn():
    picture = part("Rooms and stairs").split("```")[1]
    drawn = [line for line in picture.splitlines() if line.strip()]
    floor, steps = drawn[0], drawn[1 : len(STAIRS) + 1]
    assert set(floor.partition(" the floor")[0].split()) == FLOOR
    assert [line.split()[0] for line in steps] == STAIRS
    depths = [len(line) - len(line.lstrip()) for line in steps]
    assert depths == sorted(depths), "a step that is drawn above its place"
    beside = [line.split()[0] for line in drawn[len(STAIRS) + 1 :]]
    assert beside == [*IN_A_RANK, "../../course"]
    rooms = {room(path) for path in FILES} - {"__init__", "__main__"}
    assert rooms == {*FLOOR, *STAIRS, *IN_A_RANK}


def table_of_kinds() -> dict[str, dict[str, str]]:
    """What docs/architecture.md says of each kind of run, by room."""
    rows = [line.strip("| ").split(" | ") for line in part("Kinds of runs").splitlines() if line.startswith("|")]
    head = [cell.strip("` ") for cell in rows[0]]
    told: dict[str, dict[str, str]] = {}
    for names, *cells in rows[2:]:
        for name in re.findall(r"`(\w+)/`", names):
            told[name] = dict(zip(head[1:], (cell.strip() for cell in cells), strict=True))
    return told


def kinds_asked_for(path: Path, rows: dict[str, str]) -> set[str]:
    """The kinds of runs that the file names by their class, asks a spec for, or imports the rows of."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "scalewise.records.spec":
            found |= {alias.name for alias in node.names} & {*KINDS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scalewise.records."):
            found |= {rows[file] for file in [f"{str(node.module).rpartition('.')[2]}.py"] if file in rows}
        elif isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            found |= {kind for kind, asked in KINDS.items() if owner == "spec" and node.attr == asked}
    return found


def test_each_kind_of_run_is_known_to_the_rooms_that_the_page_says():
    told = table_of_kinds()
    assert all(set(cells) == {*KINDS} for cells in told.values())
    rows = {file: kind for kind, cell in told["records"].items() for file in named_paths(cell)}
    found: dict[str, set[str]] = {}
    for path in FILES:
        found.setdefault(room(path), set()).update(kinds_asked_for(path, rows))
    said = {name: {kind for kind, cell in cells.items() if cell != "-"} for name, cells in told.items()}
    del found["records"], said["records"]  # it declares them all
    assert {name: kinds - said.get(name, set()) for name, kinds in found.items() if kinds - said.get(name, set())} == {}
    # Nothing needs to ask for a run that is timed: that is what a run is when nothing else is said.
    unknown = {name: kinds - found[name] - {"Timed"} for name, kinds in said.items()}
    assert {name: kinds for name, kinds in unknown.items() if kinds} == {}


def test_the_files_that_the_table_of_kinds_names_are_in_their_rooms():
    named = {
        f"{name}/{path}"
        for name, cells in table_of_kinds().items()
        for cell in cells.values()
        for path in named_paths(cell)
    }
    assert len(named) > 15
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def files_in(folder: str) -> set[str]:
    return {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}


def test_every_result_is_a_document_and_only_the_console_knows_a_terminal():
    shows = [path for path in FILES if room(path) in STAIRS]
    assert [ids(path) for path in shows if path.stem.endswith(("_view", "_page"))] == []
    assert files_in("console") == {"output", "terminal", "terminal_reporter"}
    built = {path.stem for path in shows if path.stem.endswith("_document") and path.stem in functions_of(path)}
    presented = {name.rpartition(".")[2] for name in imports(ROOT / "cli" / "verbs.py")}
    assert len(built) >= 6 and built <= presented


def test_a_check_is_one_file():
    assert sorted(f"scalewise.doctor.checks.{name}" for name in files_in("doctor/checks")) == sorted(
        rule.examine.__module__ for rule in rules()
    )
    assert len({rule.check.name for rule in rules()}) == len(rules())


def test_a_change_is_one_file():
    assert files_in("watch/changes") == {*known_changes()}
    made = {path for path in FILES if path.parent.name == "changes" and "CHANGE" in assigned(path)}
    assert {path.stem for path in made if "install" in functions_of(path)} == {*known_changes()}


def test_a_section_of_a_report_is_one_file():
    general = {module.__name__.rpartition(".")[2] for module in section_modules(SuitePages())}
    with_build = {path.stem for path in FILES if room(path) == "report" and "build" in functions_of(path)}
    assert general == with_build
    assert course_suites()
    for suite in course_suites():
        own = {module.__name__.rpartition(".")[2] for module in pages_of(suite).modules}
        folder = ROOT / "course" / suite
        assert own == {path.stem for path in folder.glob("*.py") if "build" in functions_of(path)} | {"closing_section"}


def assigned(path: Path) -> set[str]:
    targets = [target for node in parsed(path).body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def functions_of(path: Path) -> set[str]:
    return {node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef)}


def test_every_launcher_that_a_spec_can_name_is_there_and_every_task_can_be_found():
    assert set(get_args(LauncherName)) == {*LAUNCHERS}
    assert len({*LAUNCHERS.values()}) == len(LAUNCHERS)
    tasks = [node for path in (ROOT / "course" / "tasks").glob("*.py") for node in ast.walk(parsed(path))]
    made = sum(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Task" for node in tasks)
    assert made == len(TASKS) == len({task.name for task in TASKS})


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


def test_every_fixture_that_is_said_to_start_a_process_is_there():
    marked = ast.parse((REPOSITORY / "tests" / "conftest.py").read_text(encoding="utf-8"))
    named = [node for node in marked.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    sets = {node.targets[0].id: node.value for node in named}
    here = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("*.py"))
    fixtures = set(re.findall(r"^@pytest\.fixture.*\n(?:@.*\n)*def (\w+)", here, flags=re.MULTILINE))
    assert ast.literal_eval(sets["WITH_PROCESSES"]) - fixtures == set()
