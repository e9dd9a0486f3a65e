"""Tests of bad input to the course's scripts: one sentence, said once, and never a traceback."""

import subprocess
import sys

import pytest
from course_runner import SCRIPTS

CODE1, AMP = "practical7_accumulation", "practical7_amp"
SPREAD = "homework3_model_parallel"

BAD = [
    (CODE1, {"ACCUM_STEPS": 0}, "ACCUM_STEPS=0 is not a whole number of at least 1; set it like this: ACCUM_STEPS=4."),
    (CODE1, {"DIM": "wide"}, "DIM=wide is not a whole number; set it like this: DIM=1024."),
    (CODE1, {"DIM": "1.5"}, "DIM=1.5 is not a whole number; set it like this: DIM=1024."),
    (CODE1, {"DIM": ""}, "DIM= is not a whole number; set it like this: DIM=1024."),
    (CODE1, {"LR": "fast"}, "LR=fast is not a number; set it like this: LR=0.01."),
    (CODE1, {"LR": "nan"}, "LR=nan is not a number of at least 0; set it like this: LR=0.01."),
    (CODE1, {"LR": "inf"}, "LR=inf... is too large; set it like this: LR=0.01."),
    (CODE1, {"DIM": "1" * 400}, f"DIM={'1' * 20}... is too large; set it like this: DIM=1024."),
    (CODE1, {"SEED": "no"}, "SEED=no is not a whole number; set it like this: SEED=0."),
    (CODE1, {"NO_SYNC": "yes"}, "NO_SYNC=yes is not one of 1, 0; set it like this: NO_SYNC=1."),
    (
        CODE1,
        {"BATCH": 63},
        "BATCH=63 cannot be shared evenly by 1 rank x 4 micro-batches (ACCUM_STEPS), 4 parts in all; try BATCH=60.",
    ),
    (CODE1, {"STEPS": 5}, "STEPS=5 leaves no step after WARMUP=5; set STEPS=40, or WARMUP=0."),
    (
        AMP,
        {"PRECISION": "float8"},
        "PRECISION=float8 is not one of float16, bfloat16, float32; set it like this: PRECISION=float16.",
    ),
    (
        "practical6_ddp",
        {"DEVICE": "cuda"},
        "DEVICE=cuda and no GPU can be seen; look at nvidia-smi, or set DEVICE=auto to use the CPU's cores.",
    ),
    (
        "practical5_dp",
        {"DEVICE": "gpu"},
        "DEVICE=gpu is not one of auto, cpu, cuda; set it like this: DEVICE=auto.",
    ),
    ("practical6_ddp", {"DELAY": "-1"}, "DELAY=-1 is not a number of at least 0; set it like this: DELAY=0.0."),
    ("practical5_dp", {"BATCH": 63}, "BATCH=63 cannot be shared evenly by 2 devices, 2 parts in all; try BATCH=62."),
    ("practical5_dp", {"DEVICES": 0}, "DEVICES=0 is not a whole number of at least 1; set it like this: DEVICES=2."),
    (
        "practical8_model_parallel",
        {"DEVICES": 3},
        "DEVICES=3: this script has 2 devices; homework3_model_parallel.py takes any number of them.",
    ),
    (
        "practical8_model_parallel",
        {"DEPTH": 1},
        "DEVICES=2 is more than DEPTH=1 layers; try DEVICES=1 or DEPTH=2.",
    ),
    (SPREAD, {"DEPTH": 4, "DEVICES": 5}, "DEVICES=5 is more than DEPTH=4 layers; try DEVICES=4 or DEPTH=5."),
]


@pytest.mark.parametrize(("script", "constants", "sentence"), BAD, ids=[f"{bad[0]}-{bad[1]}" for bad in BAD])
def test_what_cannot_be_is_refused_in_one_sentence(course, script, constants, sentence):
    made = course.run(script, ranks=1 if "practical7" in script or "ddp" in script else 0, **constants)
    assert made.stderr == (f"{sentence}\n",)
    assert not made.outcome.measured
    assert made.outcome.kind == "raised"
    assert made.outcome.ranks[0].last_lines == (sentence,)


@pytest.mark.parametrize("script", ["practical6_ddp", "practical5_dp", SPREAD])
def test_a_model_that_cannot_fit_is_refused_with_one_that_can(course, script):
    made = course.run(script, ranks=1 if "ddp" in script else 0, DIM=10**7)
    (line,) = made.stderr[0].splitlines()
    assert line.startswith("DIM=10000000 with DEPTH=2 and BATCH=64 needs about ") and "try DIM=" in line


def test_of_two_ranks_only_the_first_speaks(course):
    made = course.run("practical6_ddp", ranks=2, BATCH=33)
    assert made.stderr == ("BATCH=33 cannot be shared evenly by 2 ranks, 2 parts in all; try BATCH=32.\n", "")
    assert (made.outcome.kind, made.outcome.first_failed_rank) == ("raised", 0)


def test_a_script_with_ranks_tells_a_plain_python_how_to_start_it():
    command = [sys.executable, str(SCRIPTS / "practical6_ddp.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Start it with torchrun: torchrun --nproc_per_node=2 {command[1]}.\n"
