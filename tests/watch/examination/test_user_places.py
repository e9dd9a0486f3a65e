"""Places: which code is the user's, and one number for each line."""

import json
import sys
import sysconfig
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
import torch

import scalewise
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.notebook import ObjectNumbers
from scalewise.watch.examination.places import Places, is_users_file

PACKAGE = Path(scalewise.__file__).parent


def compiled(text: str, file: str) -> CodeType:
    """Code that says it is of that file."""
    return compile(text, file, "exec")


@pytest.mark.parametrize(
    ("file", "users"),
    [
        (__file__, True),
        ("train.py", True),
        ("/home/me/venv/train.py", True),
        ("/home/me/venv/lib/python3.11/site-packages/fire/core.py", False),
        ("/usr/lib/python3/dist-packages/six.py", False),
        (json.__file__, False),
        (torch.__file__, False),
        (str(PACKAGE / "watch" / "recorder.py"), False),
        ("<string>", False),
        ("<stdin>", False),
        ("<frozen runpy>", False),
    ],
)
def test_the_users_code_is_what_nobody_installed(file: str, users: bool) -> None:
    assert is_users_file(file) is users


@pytest.mark.parametrize("folder", [sysconfig.get_path("purelib"), str(PACKAGE)])
def test_the_script_itself_counts_wherever_it_lies(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = str(Path(folder) / "examples" / "train.py")
    assert not is_users_file(script)
    main = ModuleType("__main__")
    main.__file__ = script
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert is_users_file(script)


def test_a_line_is_described_once_and_then_a_number(tmp_path: Path) -> None:
    told: list[Any] = []
    places = Places(told.append)
    script = tmp_path / "train.py"
    script.write_text("first = 1\nsecond = where()\n")
    found: list[int] = []
    code = compiled(script.read_text(), str(script))
    for _ in range(2):
        exec(code, {"where": lambda: found.append(places.number(code, 2))})
    assert found == [0, 0] and len(told) == 1
    assert (told[0].file, told[0].line, told[0].text) == (str(script), 2, "second = where()")


def test_equal_functions_of_two_files_are_two_places() -> None:
    places = Places(lambda row: None)
    one, other = compiled("x = 1", "/a/one.py"), compiled("x = 1", "/a/other.py")
    assert one == other and places.number(one, 1) != places.number(other, 1)


def test_code_made_at_run_time_stands_at_the_line_that_runs_it() -> None:
    told: list[Any] = []
    places = Places(told.append)
    exec("number = places.here()", {"places": places})
    assert told[-1].file == __file__ and "exec(" in told[-1].text


def test_only_the_caller_itself_counts_as_the_caller() -> None:
    places = Places(lambda row: None)
    library = compiled("def call(places):\n    return places.caller(0)\n", json.__file__)
    names: dict[str, Any] = {}
    exec(library, names)
    assert names["call"](places) == NOWHERE
    assert places.caller(0) != NOWHERE


def test_the_lines_of_a_traceback_are_the_scripts_own_innermost_first() -> None:
    told: list[Any] = []
    places = Places(told.append)
    try:
        json.loads("{")
    except ValueError as error:
        numbers = places.on_the_way(error.__traceback__)
    assert len(numbers) == 1 and told[0].text == 'json.loads("{")'
    assert places.on_the_way(None) == ()


class Thing:
    """Something that can be numbered."""


def test_things_are_numbered_by_identity_and_not_kept_alive() -> None:
    numbers = ObjectNumbers()
    one, other = Thing(), Thing()
    assert numbers.of(one) is None
    assert (numbers.give(one), numbers.give(other), numbers.of(one)) == (0, 1, 0)
    shared = Thing()
    assert numbers.give(shared, 1) == 1 == numbers.of(shared)
    identity = id(one)
    del one
    assert numbers._known[identity][0]() is None
