"""Tests of what `check` reads in a script's text: steps that are left out, and prints that no `if` keeps to a rank."""

import ast
from types import SimpleNamespace

import pytest

from scalewise.course.tasks import requirement, task_named
from scalewise.course.tasks.requirement import Seen
from scalewise.doctor.case import Abstain
from scalewise.errors import BadRequest


def seen(text: str) -> Seen:
    case = SimpleNamespace(run=SimpleNamespace(spec=SimpleNamespace(script="mine.py")))
    return Seen(case, text)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("practical5", "practical5_dp"),
        ("practical6", "practical6_ddp"),
        ("practical7", "practical7_accumulation"),
        ("practical8", "practical8_model_parallel"),
        ("course/practical5_single.py", "practical5_single"),
    ],
)
def test_each_sheet_and_each_script_names_a_task(name, script):
    assert task_named(name).script == script


def test_a_task_that_is_not_there_is_told_with_all_that_are():
    with pytest.raises(BadRequest, match="no task 'practical9'") as caught:
        task_named("practical9")
    assert "Did you mean 'practical" in caught.value.hint and "practical6, practical7" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("mean(times[5:])", "5 steps"),
        ("WARMUP = 5\nmean(times[WARMUP:])", "5 steps"),
        ("for step in range(40):\n    if step >= 5: total += t", "5 steps"),
        ("for step in range(40):\n    if step > 4: total += t", "5 steps"),
        ("for step in range(40):\n    if step > 3: total += t", "4 steps"),
        ("for step in range(1, 41):\n    if step > 5: total += t", "5 steps"),
        ("for step in range(40):\n    if step < 5:\n        continue\n    total += t", "5 steps"),
        ("for i, (x, y) in enumerate(loader):\n    if i <= 4:\n        pass\n    else:\n        total += t", "5 steps"),
        ("done = 0\nwhile True:\n    done += 1\n    if done > 5: total += t", "6 steps"),
        ("if len(times) >= 5: keep(t)", "5 steps"),
    ],
)
def test_steps_that_are_left_out_are_counted_as_they_are_written(text, measured):
    found = requirement._warm_up_left_out(seen(text))
    assert found.measured == f"{measured} are left out"
    assert (found.state == "fulfilled") == (int(measured[0]) >= 5)


@pytest.mark.parametrize(
    "text",
    [
        "for step in range(40):\n    if norm > 10: clip()\n    total += t",
        "assert STEPS > 5",
        "for step in range(40):\n    if step < 5:\n        print(step)\n    total += t",
        "mean(times[0:])",
    ],
)
def test_a_number_that_is_compared_with_something_else_leaves_no_step_out(text):
    with pytest.raises(Abstain):
        requirement._warm_up_left_out(seen(text))


def test_a_print_of_all_ranks_is_told_from_one_of_rank_0():
    text = "if rank == 0:\n    print('mine')\nfor step in steps:\n    if step:\n        print(1)\nif r == 0: print(2)\n"
    lines = [call.lineno for call in requirement._prints_of_all(ast.parse(text))]
    assert lines == [5]
