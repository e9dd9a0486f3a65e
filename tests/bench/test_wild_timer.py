"""The hand timer of `python -m bench wild`: marks put into a copy, and times read back."""

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.wild_list import Mark
from bench.wild_parts import TIMER
from bench.wild_timer import WARMUP_STEPS, hand_time, put_marks, step_by_step

from factories import make_run
from scalewise.errors import BadRequest

LOOP = '''"""A docstring."""
from __future__ import annotations

import time

for step in range(8):
    loss = sum(
        range(step)
    )
    if step:
        print(
            step)
'''


def marked(folder: Path, text: str, begin: Mark, end: Mark) -> Path:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    put_marks(path, begin, end)
    return path


def run_timed(path: Path, **environment: str) -> str:
    variables = {"PYTHONPATH": str(TIMER.parent), "HAND_TIMER_FOLDER": str(path.parent), **environment}
    done = subprocess.run([sys.executable, str(path)], env=variables, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.processes
def test_a_marked_script_prints_what_it_printed_and_times_every_step(tmp_path):
    path = marked(tmp_path, LOOP, Mark("loss = sum("), Mark("if step:"))
    assert run_timed(path) == "".join(f"{step}\n" for step in range(1, 8))
    time = hand_time(tmp_path, 1)
    assert time is not None
    assert time.steps == 8 - WARMUP_STEPS
    assert time.loop_seconds is not None
    assert 0 < time.step_seconds <= time.loop_seconds


def test_marks_on_one_line_time_that_statement(tmp_path):
    path = marked(tmp_path, LOOP, Mark("loss = sum("), Mark("loss = sum("))
    lines = path.read_text().splitlines()
    begin = lines.index('    __import__("hand_timer").begin()')
    assert lines[begin + 4] == '    __import__("hand_timer").end()'


@pytest.mark.processes
def test_tabs_stay_tabs(tmp_path):
    path = marked(tmp_path, "for step in range(9):\n\tx = step\n\ty = x\n", Mark("x = step"), Mark("y = x"))
    run_timed(path)
    assert hand_time(tmp_path, 1) is not None


def test_ranks_are_told_apart_and_a_step_is_that_of_its_slowest_rank(tmp_path):
    for rank, length in ((0, 10), (1, 30)):
        stamps = [(step * 100, step * 100 + length) for step in range(9)]
        (tmp_path / f"2-{rank}-77{rank}.steps").write_bytes(b"".join(struct.pack("<qq", *one) for one in stamps))
    time = hand_time(tmp_path, 2)
    assert time is not None
    assert (time.step_seconds, time.loop_seconds) == (pytest.approx(30e-9), pytest.approx(100e-9))
    assert hand_time(tmp_path, 1) is None


def test_a_rank_without_times_leaves_the_run_without_a_time(tmp_path):
    (tmp_path / "2-0-7.steps").write_bytes(struct.pack("<qq", 1, 2) * 20)
    assert hand_time(tmp_path, 2) is None


def test_a_record_cut_short_is_left_out(tmp_path):
    (tmp_path / "1-0-7.steps").write_bytes(struct.pack("<qq", 1, 2) * 6 + b"half")
    time = hand_time(tmp_path, 1)
    assert time is not None
    assert time.steps == 1


def test_every_step_is_compared_with_itself(tmp_path):
    lengths = [10] * 6 + [100, 1000, 200]
    stamps = [(at * 5000_000, at * 5000_000 + length * 1000) for at, length in enumerate(lengths)]
    (tmp_path / "1-0-7.steps").write_bytes(b"".join(struct.pack("<qq", *one) for one in stamps))
    assert step_by_step(tmp_path, make_run([length * 1.1e-6 for length in lengths])) == pytest.approx(0.1)
    assert step_by_step(tmp_path, make_run([length * 1e-6 for length in lengths[1:]])) is None, "not the same steps"


def test_steps_that_were_only_counted_are_left_out(tmp_path):
    (tmp_path / "1-0-7.steps").write_bytes(b"".join(struct.pack("<qq", at * 1000, at * 1000 + 10) for at in range(9)))
    run = make_run([11e-9] * 9)
    (record,) = run.ranks
    gapped = replace(run, ranks=(replace(record, steps=record.steps[:7]),))
    assert step_by_step(tmp_path, gapped) == pytest.approx(0.1)


def test_iterations_of_optimizers_that_step_in_turns_are_compared_with_themselves(tmp_path):
    run = make_run([1e-6] * 16)
    (record,) = run.ranks
    steps = tuple(replace(row, optimizer=row.step % 2) for row in record.steps)
    stamps = [(at * 9000, at * 9000 + 4000) for at in range(8)]
    (tmp_path / "1-0-7.steps").write_bytes(b"".join(struct.pack("<qq", *one) for one in stamps))
    two_steps, between, data = 2000, 2000, 1000
    told = step_by_step(tmp_path, replace(run, ranks=(replace(record, steps=steps),)))
    assert told == pytest.approx((two_steps + between + data) / 4000 - 1)


def test_a_rank_without_an_end_is_compared_with_nothing(tmp_path):
    (tmp_path / "1-0-7.steps").write_bytes(struct.pack("<qq", 1, 2) * 9)
    run = make_run([1e-9] * 9)
    assert step_by_step(tmp_path, replace(run, ranks=(replace(run.ranks[0], end=None),))) is None


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        (Mark("nothing"), "has no line 'nothing'"),
        (Mark("x = 1"), "has 2 lines 'x = 1'"),
        (Mark("x = 1", 3), "has 2 lines 'x = 1', and no number 3"),
        (Mark("2)"), "does not start a statement"),
    ],
)
def test_a_line_that_cannot_be_marked_is_a_sentence(tmp_path, mark, sentence):
    with pytest.raises(BadRequest) as caught:
        marked(tmp_path, "x = 1\nx = 1\ny = max(1,\n2)\n", mark, Mark("x = 1", 2))
    assert sentence in caught.value.sentence


def test_one_of_several_equal_lines_is_chosen_by_its_number(tmp_path):
    path = marked(tmp_path, "x = 1\nx = 1\n", Mark("x = 1", 2), Mark("x = 1", 2))
    timer = '__import__("hand_timer")'
    lines = path.read_text().splitlines()
    assert lines == [f"{timer}.start()", "x = 1", f"{timer}.begin()", "x = 1", f"{timer}.end()"]
