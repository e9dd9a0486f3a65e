"""Tests of steps on GPUs that are not here: what is written is read back, and what was not recorded is left out."""

import json
from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from scalewise.analysis.estimate import Estimate
from scalewise.course import gpus
from scalewise.predict.tape import Compute, Issue, Tape, Wait


def of(suite):
    evidence = make_evidence()
    return replace(evidence, loaded=replace(evidence.loaded, name=suite))


TAPE = Tape(
    (Compute(0.001, "forward"), Compute(0.002, "backward"), Issue(0, "all_reduce", 2**23, 2, 0), Wait(0)), 2, 0, 32.0
)


def a_file(tmp_path, monkeypatch, **changed):
    one = {
        "suite": "homework1",
        "experiment": "strong-scaling",
        "axes": {},
        "ranks": 1,
        "env": {"DIM": "1024", "DEPTH": "2"},
        "peak_bytes": 10,
        "step": {"seconds": [0.005, 0.0049, 0.0051], "steps": 100, "runs": 3},
    }
    two = {**one, "ranks": 2, "spread": 0.03, "tape": gpus._written(TAPE)}
    del two["step"]
    told = {"schema": 1, "device": "NVIDIA H200", "date": "2026-11-18", "versions": {"torch": "2.11"}, **changed}
    path = tmp_path / "h200.json"
    path.write_text(json.dumps({**told, "records": [one, two]}))
    monkeypatch.setattr(gpus, "FILE", path)
    gpus.shipped.cache_clear()


@pytest.fixture(autouse=True)
def fresh_cache():
    gpus.shipped.cache_clear()
    yield
    gpus.shipped.cache_clear()


def test_one_gpu_is_measured_and_two_are_predicted_with_a_speedup(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    one, two = gpus.gpu_steps(of("homework1"), "strong-scaling", (1, 2, 4))
    assert (one.ranks, one.mark, one.speedup) == (1, "measured", None)
    assert one.step.value == 0.005
    assert (two.ranks, two.mark) == (2, "predicted")
    assert two.step.low < two.step.value < two.step.high
    assert two.speedup is not None and two.speedup.value == pytest.approx(0.005 / two.step.value)
    assert two.efficiency is not None and two.efficiency.value == pytest.approx(two.speedup.value / 2)


def test_a_predicted_step_is_its_computing_and_the_message_that_nothing_hides(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    (two,) = gpus.gpu_steps(of("homework1"), "strong-scaling", (2,))
    assert two.step.value > 0.003
    assert two.communication_share == pytest.approx(1 - 0.003 / two.step.value)


def test_a_tape_comes_back_as_it_was_written(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    known = gpus.shipped()
    assert known is not None
    record = known.of("homework1", "strong-scaling", 2, {})
    assert record is not None and record.rehearsal is not None
    assert record.rehearsal.tapes == (TAPE,)


def test_what_was_not_recorded_is_left_out(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    assert gpus.gpu_steps(of("homework1"), "strong-scaling", (8,)) == ()
    assert gpus.gpu_steps(of("homework1"), "strong-scaling", (1,), case="large") == ()
    assert gpus.gpu_steps(of("homework2"), "codes", (1,)) == ()


def test_without_the_file_there_are_no_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "FILE", tmp_path / "none.json")
    assert gpus.gpu_steps(of("homework1"), "strong-scaling", (1,)) == ()
    assert gpus.told_source(of("homework1")) == ""


def test_a_file_of_another_schema_is_refused_by_its_number(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch, schema=2)
    with pytest.raises(ValueError, match="schema 2"):
        gpus.shipped()


def test_a_larger_message_between_two_gpus_takes_longer():
    assert gpus.hand_over_seconds("nvlink4", 2**30) > gpus.hand_over_seconds("nvlink4", 2**20) > 0


def test_an_estimate_of_one_gpu_keeps_its_interval(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    (one,) = gpus.gpu_steps(of("homework1"), "strong-scaling", (1,))
    assert (one.step.low, one.step.high) == (0.0049, 0.0051)
    assert isinstance(one.step, Estimate)


def test_memory_and_micro_batches_of_a_rehearsed_step_are_kept(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    one, two = gpus.gpu_steps(of("homework1"), "strong-scaling", (1, 2))
    assert (one.micro_batches, two.micro_batches) == (None, TAPE.micro_batches)
    assert two.peak_bytes == 10


def test_a_table_without_predictions_says_only_where_it_was_measured(tmp_path, monkeypatch):
    a_file(tmp_path, monkeypatch)
    assert "Predicted" in gpus.told_source(of("homework1"))
    assert gpus.told_source(of("homework1"), predicted=False) == "Measured on NVIDIA H200 on 2026-11-18 (torch 2.11)."
