"""The pages on the verbs are true: files, functions and their order are those of the source."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import scalewise
from scalewise.cli.verbs import verbs

ROOT = Path(scalewise.__file__).parent
REPOSITORY = ROOT.parent.parent
FOLDER = REPOSITORY / "docs" / "verbs"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md"))
NAMED = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
OF_THE_COMMAND_LINE = [f"cli/{path.name}" for path in sorted((ROOT / "cli").glob("*.py"))]
MOST_LINES = 72
Mention = tuple[str, str]  # a file under src/scalewise and a function in it, or a class, or Class.method; maybe empty


def text_of(verb: str) -> str:
    return (FOLDER / f"{verb}.md").read_text(encoding="utf-8")


def mentions(text: str) -> list[Mention]:
    return [(path, name) for path, name in NAMED.findall(text) if not path.startswith(("tests/", "docs/"))]


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def defined(path: str) -> set[str]:
    """Functions, classes and constants at the top of a file, and methods as `Class.method`."""
    found = set()
    for node in ast.parse(source(path)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def wrong(text: str) -> list[str]:
    """Files that are not there, and functions that are not in their file."""
    gone = [path for path, _ in mentions(text) if not (ROOT / path).is_file()]
    named = [(path, name) for path, name in mentions(text) if name and path not in gone]
    files = [f".{end}" for end in re.findall(r"`rank\{N\}\.([\w.]+)`", text)]
    return [
        *gone,
        *(f"{path}:{name}" for path, name in named if name not in defined(path)),
        *(f"rank{{N}}{end}" for end in files if f"{{rank}}{end}" not in source("records/folder.py")),
    ]


def uncalled(text: str, before: str = "") -> list[str]:
    """Functions of which no file that is named earlier says the name, so that the order of the page cannot be right."""
    found = []
    earlier = [*OF_THE_COMMAND_LINE, *(path for path, _ in mentions(before))]
    for place, (path, name) in enumerate(mentions(text)):
        last = name.rpartition(".")[2]
        calls = re.compile(rf"(?<!def )(?<!class )\b{last}\b")
        if place and last and not any(calls.search(source(one)) for one in earlier):
            found.append(f"{path}:{name}")
        earlier.append(path)
    return found


@cache
def told_by_verbs() -> dict[str, ast.FunctionDef]:
    """The functions with which verbs show what they found, beside the verbs themselves; not those that read options.

    How a verb becomes a job of a cluster is told in docs/architecture.md, once for all verbs.
    """
    files = [path for path in OF_THE_COMMAND_LINE if not re.search("request|options|cluster", path)]
    return {
        node.name: node for path in files for node in ast.parse(source(path)).body if isinstance(node, ast.FunctionDef)
    }


def imported_by(function: str) -> set[Mention]:
    """Functions that a verb imports when it is typed, by itself or by a function of the command line that it calls."""
    found: set[Mention] = set()
    called = told_by_verbs().keys() - verbs.commands.keys()
    for node in (inner for step in told_by_verbs()[function].body for inner in ast.walk(step)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("scalewise.cli"):
            path = node.module.removeprefix("scalewise.").replace(".", "/")
            found |= {(f"{path}.py", alias.name) for alias in node.names if alias.name.islower()}
        elif isinstance(node, ast.Name) and node.id in called:
            found |= imported_by(node.id)
    return found


def test_every_verb_has_a_page_and_every_page_a_verb():
    assert sorted(verbs.commands) == PAGES
    architecture = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [verb for verb in PAGES if f"](verbs/{verb}.md)" not in architecture] == []


def test_the_index_of_behaviours_names_files_and_functions_that_are_there():
    architecture = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    index = architecture.partition("## Which file does it\n")[2].partition("\n## ")[0]
    rows = [line for line in index.splitlines() if line.startswith("| ") and ".py" in line]
    assert len(rows) > 25 and len(mentions(index)) >= len(rows), "hardly anything was looked at"
    assert [row for row in rows if not mentions(row.split(" | ")[1])] == [], "a behaviour without a file"
    # The files of changes and checks are named by a pattern.
    named = index.replace("watch/changes/NAME.py", "watch/changes/no_sync.py")
    assert wrong(named.replace("doctor/checks/NAME.py", "doctor/checks/epoch_never_set.py")) == []
    assert wrong("`errors.py:did_you_meen`") == ["errors.py:did_you_meen"]


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_names_files_and_functions_that_are_there(verb: str):
    assert len(mentions(text_of(verb))) > 8, "hardly anything was looked at"
    assert wrong(text_of(verb)) == []


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_names_all_that_its_verb_calls(verb: str):
    assert mentions(text_of(verb))[0][0] == "cli/verbs.py"
    assert ("cli/verbs.py", verb) in mentions(text_of(verb))
    assert sorted(imported_by(verb) - {*mentions(text_of(verb))}) == []


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_is_in_the_order_of_calls(verb: str):
    before = "".join(text_of(name) for name in re.findall(r"\]\((\w+)\.md\)", text_of(verb)))
    assert uncalled(text_of(verb), before) == []


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_is_short_and_says_what_is_written_and_where_to_look(verb: str):
    text = text_of(verb)
    assert text.startswith(f"# What happens when you type `scalewise {verb}`\n\n    scalewise {verb} ")
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= 120
    for part in ("On disk**: ", "When it goes wrong**: ", "Tests**: `tests/"):
        assert text.count(f"\n- **{part}") == 1, part
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_function_that_is_not_there_or_is_called_by_nobody_is_noticed():
    page = "`cli/verbs.py:show`, `records/load.py:loaded`, `records/lost.py:load`, `rank{N}.jsonl`, `rank{N}.row`"
    assert wrong(page) == ["records/lost.py", "records/load.py:loaded", "rank{N}.row"]
    assert uncalled("`cli/verbs.py:show`, `launch/verdict.py:judge`, `launch/supervise.py:run_one`") == [
        "launch/verdict.py:judge",
        "launch/supervise.py:run_one",
    ]
    assert ("records/load.py", "load") in imported_by("show"), "the helper that shows is not followed"
