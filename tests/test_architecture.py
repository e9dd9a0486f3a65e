"""The rules of the house: imports go down the stairs, torch stays in its rooms, files and functions stay short."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scalewise

ROOT = Path(scalewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLOOR = {"errors", "units", "records"}
STAIRS = ["plan", "launch", "results", "analysis", "predict", "doctor", "explain", "report", "console", "cli"]
IN_A_RANK = ("watch", "subjects")  # rooms whose code runs inside a rank
WATCH_MAY_IMPORT = {"records", "errors", "watch"}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager"}


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return Path(parts[0]).stem


def imports(path: Path) -> Iterator[str]:
    """Every module the file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(path: Path) -> set[str]:
    names = {name.split(".")[1] for name in imports(path) if name.startswith("scalewise.")}
    return {name for name in names if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_imports_go_down_the_stairs(path):
    own = room(path)
    if own == "watch":
        assert rooms_imported(path) <= WATCH_MAY_IMPORT
    elif own == "subjects":
        assert not any(name.split(".")[0] == "scalewise" for name in imports(path))
    elif own in FLOOR:
        assert rooms_imported(path) <= FLOOR
    elif own in STAIRS:
        below = {*FLOOR, *STAIRS[: STAIRS.index(own) + 1]}
        assert rooms_imported(path) <= below
    else:
        assert own in ("__init__", "__main__", "suites"), f"{own} has no place on the stairs"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_rank_needs_only_torch_numpy_and_the_standard_library(path):
    roots = {name.split(".")[0] for name in imports(path)}
    own = room(path)
    if own in IN_A_RANK:
        # An optimizer or a wrapper of another library may be a subject; the watcher may not need one.
        foreign = roots - set(sys.stdlib_module_names) - {"torch", "numpy", "scalewise"}
        assert own == "subjects" or not foreign
    else:
        assert "torch" not in roots, "only what runs inside a rank may import torch"
    if own == "records":
        assert roots <= set(sys.stdlib_module_names) | {"scalewise"}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_says_what_it_is_is_short_and_has_a_telling_name(path):
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "a docstring atop the file"
    assert len(text.splitlines()) <= 500
    assert path.stem not in FORBIDDEN_NAMES and path.parent.name not in FORBIDDEN_NAMES


def test_functions_are_short():
    lengths = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lengths[f"{ids(path)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    too_long = {name: length for name, length in lengths.items() if length > 60}
    assert not too_long
    assert sum(length < 30 for length in lengths.values()) >= 0.9 * len(lengths)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from scalewise.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'rich', 'psutil', 'pynvml', 'matplotlib', 'typst'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"
