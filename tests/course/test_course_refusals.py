"""Tests of bad constants: the script ends at once, and the last line that Python prints names the constant."""

import subprocess
import sys

import pytest
from course_runner import SCRIPTS

CODE1, CODE3, AMP, DDP = "practical7_accumulation", "practical5_single", "practical7_amp", "practical6_ddp"
SPREAD, HALVES, DP = "homework3_model_parallel", "practical8_model_parallel", "practical5_dp"

BAD = [
    (CODE1, {"BATCH": 62}, "AssertionError: BATCH=62 is not 1 x 4 equal parts"),
    (CODE3, {"BATCH": 0}, "AssertionError: BATCH=0 is not 1 x 4 equal parts"),
    (CODE1, {"STEPS": 5}, "AssertionError: STEPS=5 must be more than WARMUP=5"),
    (SPREAD, {"STEPS": 5}, "AssertionError: STEPS=5 must be more than WARMUP=5"),
    (DDP, {"BATCH": 0}, "AssertionError: BATCH=0 cannot be shared evenly by 1 ranks"),
    (DDP, {"DEVICE": "cuda"}, "AssertionError: DEVICE=cuda, but no GPU can be seen"),
    (HALVES, {"DEVICE": "cuda"}, "AssertionError: DEVICE=cuda, but no GPU can be seen"),
    (SPREAD, {"DEVICE": "cuda"}, "AssertionError: DEVICE=cuda, but no GPU can be seen"),
    (DP, {"DEVICE": "cuda"}, "AssertionError: DEVICE=cuda, but no GPU can be seen"),
]
# Python's own words, under the line of the script that reads the constant.
PYTHON = [
    (CODE1, {"DIM": "wide"}, 'int(os.environ.get("DIM", 1024))', "'wide'"),
    (DDP, {"LR": "fast"}, 'float(os.environ.get("LR", 0.01))', "'fast'"),
    (CODE1, {"ACCUM_STEPS": "0"}, "ranks * ACCUM_STEPS", "ZeroDivisionError"),
    (AMP, {"PRECISION": "float8"}, "PRECISION", "'float8'"),
    (CODE3, {"PRECISION": "float32"}, '"PRECISION"', "'float32'"),
]


def alone(script):
    return 0 if script in (SPREAD, HALVES, DP) else 1


@pytest.mark.parametrize(("script", "constants", "last"), BAD, ids=[f"{bad[0]}-{bad[1]}" for bad in BAD])
def test_what_cannot_be_ends_with_a_sentence_that_names_the_constant(course, script, constants, last):
    made = course.run(script, ranks=alone(script), **constants)
    assert made.outcome.kind == "raised" and not made.stdout.startswith("step")
    assert made.stderr[0].splitlines()[-1] == last


@pytest.mark.parametrize(("script", "constants", "line", "word"), PYTHON, ids=[f"{bad[0]}-{bad[1]}" for bad in PYTHON])
def test_what_is_no_number_ends_at_the_line_that_reads_it(course, script, constants, line, word):
    made = course.run(script, ranks=alone(script), **constants)
    assert made.outcome.kind == "raised"
    assert line in made.stderr[0] and word in made.stderr[0].splitlines()[-1]


@pytest.mark.processes
def test_a_script_with_ranks_tells_a_plain_python_how_to_start_it():
    command = [sys.executable, str(SCRIPTS / "practical6_ddp.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("start it with: torchrun --nproc_per_node=2 practical6_ddp.py")
