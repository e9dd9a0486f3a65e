"""Tests of listings: the lines of the script that was run, with their numbers; nothing where there are none."""

from dataclasses import replace
from pathlib import Path

import pytest

from evidence_factories import arm, make_evidence
from scalewise.course.code_listings import function_listing, lines_listing, stretch_listings
from scalewise.course.homework2 import h2_1_same_training as h2_1

SCRIPT = """import torch


class Model:
    def __init__(self, depth):
        count = torch.cuda.device_count()
        self.depth = depth

    def forward(self, x):
        return x


with autocast():
    loss = 1
scaler.scale(loss).backward()
"""


@pytest.fixture
def evidence(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    run = arm("all-devices", [0.1] * 40, 1, axes={"devices": 2})
    return make_evidence(replace(run, spec=replace(run.spec, script=str(script))))


def test_a_function_is_shown_with_its_line_numbers_and_the_lines_that_matter(evidence):
    found = function_listing(
        evidence, "all-devices", "Model.__init__", id="h3-3-init", title="The class", marks=("device_count",)
    )
    assert found is not None
    assert (found.source, found.first_line, found.marked) == ("mine.py", 5, (6,))
    assert found.text.splitlines()[0] == "def __init__(self, depth):"
    assert found.text.splitlines()[-1] == "    self.depth = depth"


def test_lines_are_shown_from_the_first_to_the_last_that_matters(evidence):
    found = lines_listing(evidence, "all-devices", ("autocast", "scaler."), id="h2-1-amp", title="Mixed precision")
    assert found is not None
    assert found.marked == (13, 15)
    assert "with autocast():\n    loss = 1\nscaler.scale(loss).backward()" in found.text


@pytest.mark.parametrize("name", ["Model.backward", "forward", "Other.__init__"])
def test_a_function_that_is_not_there_gives_no_listing(evidence, name):
    assert function_listing(evidence, "all-devices", name, id="x", title="x") is None


def test_no_listing_without_the_script_the_experiment_or_a_line_that_matters(evidence, tmp_path):
    assert function_listing(evidence, "other", "Model.forward", id="x", title="x") is None
    assert function_listing(evidence, "all-devices", "Model.forward", id="x", title="x", devices=5) is None
    assert lines_listing(evidence, "all-devices", ("nothing",), id="x", title="x") is None
    (tmp_path / "mine.py").write_text("def broken(:")
    assert function_listing(evidence, "all-devices", "Model.forward", id="x", title="x") is None
    (tmp_path / "mine.py").unlink()
    assert function_listing(evidence, "all-devices", "Model.forward", id="x", title="x") is None


def test_a_function_of_another_axis_value_is_not_taken(evidence):
    found = function_listing(evidence, "all-devices", "Model.forward", id="x", title="x", devices=2)
    assert found is not None and found.first_line == 9


FAR_APART = (
    """scaler = GradScaler()
"""
    + "\n".join(f"line{number} = 0" for number in range(40))
    + """
with autocast():
    loss = 1
optimizer.zero_grad()
"""
)


def test_no_line_that_matters_is_cut_off_however_long_the_script_is(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(FAR_APART)
    run = arm("codes", [0.1] * 40, 1)
    evidence = make_evidence(replace(run, spec=replace(run.spec, script=str(script))))
    marks = ("GradScaler(", "autocast(", "zero_grad(")
    found = stretch_listings(evidence, "codes", marks, id="h2-1-code", title="Code 3")
    assert [one.id for one in found] == ["h2-1-code", "h2-1-code-1"]
    assert [line for one in found for line in one.marked] == [1, 42, 44]
    assert stretch_listings(evidence, "other", marks, id="x", title="x") == ()


def test_the_listing_of_code_3_has_the_scaler_and_the_cleared_gradients_and_marks_no_clock(tmp_path):
    run = arm("codes", [0.1] * 40, 1)
    script = Path(__file__).parents[2] / "course" / "practical5_single.py"
    evidence = make_evidence(replace(run, spec=replace(run.spec, script=str(script))))
    (listing,) = stretch_listings(evidence, "codes", h2_1.MARKS, id="h2-1-code", title="Code 3")
    lines = listing.text.splitlines()
    assert "GradScaler(" in lines[0] and "optimizer.zero_grad()" in lines[-1]
    marked = [lines[number - listing.first_line] for number in listing.marked]
    assert any("talk = (step + 1)" in line for line in marked)
    assert not any("if step % ACCUM_STEPS == 0" in line for line in marked)


def test_a_script_of_the_course_that_ran_on_another_machine_is_listed_as_it_is_here():
    run = arm("all-devices", [0.1] * 40, 1)
    elsewhere = replace(run, spec=replace(run.spec, script="/not/here/practical6_ddp.py"))
    found = lines_listing(make_evidence(elsewhere), "all-devices", ("backward()",), id="x", title="x")
    assert found is not None
    assert "loss.backward()" in found.text
    assert found.source.endswith("(the one that ran is not on this machine)")
