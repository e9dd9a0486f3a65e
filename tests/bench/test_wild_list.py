"""The list of scripts that `python -m bench wild` reads."""

from pathlib import Path

import pytest
from bench.wild_list import Mark, chosen, read_list

from scalewise.errors import BadRequest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "train.py").write_text("print()\n")
    return tmp_path


def listed(folder: Path, text: str):
    (folder / "wild.toml").write_text(text, encoding="utf-8")
    return read_list(folder)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(BadRequest) as caught:
        listed(folder, text)
    return caught.value.sentence


def test_a_script_needs_only_a_name_and_a_path(folder):
    [script] = listed(folder, '[[script]]\nname = "one"\npath = "one/train.py"\n')
    assert (script.name, script.ranks, script.plain, script.parallel) == ("one", (1,), False, "none")
    assert script.root == script.cwd == folder / "one"
    assert script.timed == script.path == folder / "one" / "train.py"
    assert script.begin is None
    assert script.verbs == ("run", "doctor", "rehearse")


def test_what_stands_above_the_scripts_is_for_all_of_them_and_a_script_may_add_to_it(folder):
    [script] = listed(
        folder,
        'python = "env/bin/python"\nenvironment = {A = "1", B = "1"}\nlimit_seconds = 9\n'
        '[[script]]\nname = "one"\npath = "one/train.py"\nenvironment = {B = "2"}\n'
        'begin = "  x = 1 "\nbegin_number = 2\nend = "y = 2"\n',
    )
    assert script.python == str(folder / "env/bin/python")
    assert script.environment == {"A": "1", "B": "2"}
    assert script.limit_seconds == 9
    assert script.begin == Mark("x = 1", 2)
    assert script.end == Mark("y = 2", None)


def test_a_bare_name_of_an_interpreter_is_looked_for_on_the_path(folder):
    [script] = listed(folder, 'python = "python3"\n[[script]]\nname = "one"\npath = "one/train.py"\n')
    assert script.python == "python3"


def test_everything_that_is_wrong_is_told_at_once(folder):
    said = refusal(
        folder,
        'pyton = "x"\n'
        '[[script]]\nname = "one"\npath = "one/missing.py"\nargments = []\nranks = [0]\nbegin = "x"\n'
        '[[script]]\npath = "one/train.py"\nplain = true\nranks = [1, 2]\nsamples = [3]\nverbs = ["dance"]\n'
        'parallel = "odd"\nenvironment = {A = 1}\n',
    )
    for part in (
        "for all scripts: unknown key 'pyton', did you mean 'python'?",
        "script 'one': unknown key 'argments', did you mean 'arguments'?",
        "script 'one': path 'one/missing.py' does not exist",
        "script 'one': ranks is [0], not a list of whole numbers above 0",
        "script 'one' has one of 'begin' and 'end'; a time needs both",
        "script 2 has no 'name'",
        "script 2 is plain, so it has no ranks",
        "script 2 has 1 numbers of samples for 2 numbers of ranks",
        "script 2: there is no verb 'dance'",
        "script 2: parallel is 'odd'",
        "script 2: environment is {'A': 1}, not a table of texts",
    ):
        assert part in said


def test_two_scripts_of_one_name_are_refused(folder):
    entry = '[[script]]\nname = "one"\npath = "one/train.py"\n'
    assert "two scripts are called 'one'" in refusal(folder, entry * 2)


def test_a_folder_without_a_list_is_a_sentence(tmp_path):
    with pytest.raises(BadRequest, match=r"has no wild\.toml"):
        read_list(tmp_path)


def test_a_list_that_is_no_toml_is_a_sentence(folder):
    assert "cannot be read" in refusal(folder, "[[script\n")


def test_a_list_without_scripts_is_a_sentence(folder):
    assert "it has no [[script]] tables" in refusal(folder, 'python = "python"\n')


def test_scripts_are_chosen_by_name_and_a_wrong_name_is_told(folder):
    scripts = listed(folder, '[[script]]\nname = "one"\npath = "one/train.py"\n')
    assert chosen(scripts, ()) == chosen(scripts, ["one"]) == scripts
    with pytest.raises(BadRequest) as caught:
        chosen(scripts, ["onne"])
    assert caught.value.hint == "did you mean 'one'?"
