"""Tests of the suite around a user's own script."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factories import make_machine
from scalewise.errors import BadRequest
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand, suite_id
from scalewise.plan.experiment import Examination
from scalewise.plan.suite import read_suite
from scalewise.plan.words import parse_changes
from scalewise.records.spec import Change, Examined

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # no halves of surrogate pairs


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "My Train_v2.py"
    path.write_text("print()")
    return path


def test_the_arguments_reach_the_script_as_they_are(script, tmp_path):
    words = ["--json", '{"a": {"b": 1}}', "{dim}", "{{x}}", "ä\x7f\n"]
    plan = expand(script_suite(script, words, ranks=(1, 2), repeat=2), make_machine(), tmp_path)
    assert {spec.args for spec in plan.runs} == {tuple(words)}
    assert len(plan.runs) == 4


def test_its_toml_is_a_suite_with_the_same_experiment(script):
    suite = script_suite(script, ["{dim}", 'a"b\\c\x7f'], ranks=(1, 2), changes=((), parse_changes("slow_rank:0.02@1")))
    again = read_suite(suite.source, script.parent / "suite.toml")
    assert again.experiments == suite.experiments
    assert (again.name, again.title) == (suite.name, suite.title) == ("my-train_v2", "My Train_v2.py")


@given(st.lists(ANY_TEXT), st.dictionaries(st.from_regex(r"[A-Za-z_]\w*", fullmatch=True), ANY_TEXT))
@example(
    ['"""', "'''", "\\", "\r\n", "\x00\x1f\x7f\x85\u2028", "# no comment", "{axis}", "[[experiment]]"], {"A": "\\u0041"}
)
def test_its_toml_reads_back_equal_whatever_the_arguments_hold(args, env):
    suite = script_suite(Path(__file__), args, env=env)
    assert read_suite(suite.source, Path("/suite.toml")).experiments == suite.experiments


def test_an_argument_that_is_no_text_is_kept_as_far_as_it_is():
    suite = script_suite(Path(__file__), ["a\udcffb"])
    assert read_suite(suite.source, Path("/suite.toml")).experiments[0].args == ("a?b",)


def test_an_inspected_run_follows_the_timed_ones_of_every_arm(script, tmp_path):
    changes = ((), parse_changes("slow_rank:0.02@0"))
    suite = script_suite(script, ranks=(1, 2), repeat=2, changes=changes, inspect=True)
    runs = expand(suite, make_machine(), tmp_path).runs
    assert [run.inspected for run in runs] == [False] * 8 + [True] * 2
    assert all(run.name.endswith("-inspect") and not run.changes for run in runs[8:])
    assert read_suite(suite.source, script.parent / "suite.toml").experiments == suite.experiments


def test_a_missing_script_gets_the_nearest_name(script):
    with pytest.raises(BadRequest) as caught:
        script_suite(script.with_name("My Train_v3.py"))
    assert "does not exist" in caught.value.sentence
    assert caught.value.hint == "Did you mean 'My Train_v2.py'?"


def test_requests_that_make_no_sense_are_refused(script, tmp_path):
    with pytest.raises(BadRequest, match="is a folder"):
        script_suite(tmp_path)
    with pytest.raises(BadRequest, match="--repeat 0"):
        script_suite(script, repeat=0)
    with pytest.raises(BadRequest, match="no ranks"):
        script_suite(script, mode="python", ranks=(1, 2))


def test_an_examined_script_has_an_arm_for_every_change_and_a_folder_of_its_own(script, tmp_path):
    changes = ((), (Change("divide_loss", {"by": 4}),))
    examination = Examination(on_cpu=True, enough_steps=30)
    suite = script_suite(script, ranks=(2,), device="cuda", turns=True, examination=examination, changes=changes)
    plain, fixed = expand(suite, make_machine(), tmp_path).runs
    assert (plain.kind, plain.on_cpu, plain.enough_steps, plain.device) == (Examined(), True, 30, "cpu")
    assert (plain.changes, fixed.changes) == changes
    assert plain.name != fixed.name and "divide_loss" in fixed.name
    assert plain.turns and fixed.turns and plain.turns.ring == fixed.turns.ring
    assert read_suite(suite.source, script.parent / "suite.toml").experiments[0].examination is None


def test_how_a_script_is_examined_decides_which_runs_are_its_own(script, tmp_path):
    ways = [None, Examination(), Examination(on_cpu=True), Examination(enough_steps=9)]
    machine = make_machine()
    plans = [expand(script_suite(script, device="cpu", examination=way), machine, tmp_path) for way in ways]
    assert len({suite_id(plan, machine) for plan in plans}) == len(ways)


def test_variables_and_a_number_of_steps_reach_every_run_and_the_toml(script, tmp_path):
    suite = script_suite(script, env={"LR": "0.1", "NAME": "{a} = b"}, steps=7)
    for one in (suite, read_suite(suite.source, tmp_path / "suite.toml")):
        (run,) = expand(one, make_machine(), str(tmp_path)).runs
        assert run.env == {"LR": "0.1", "NAME": "{a} = b"} and run.enough_steps == 7


def test_a_negative_number_of_steps_is_refused(script):
    with pytest.raises(BadRequest, match="--steps -1 is no number of steps"):
        script_suite(script, steps=-1)
