"""Tests of steps on GPUs that are not here: what is written is read back, and what was not recorded is left out."""

import json
from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from homework1_evidence import strong
from scalewise.analysis.estimate import Estimate
from scalewise.course import gpus
from scalewise.course.gpus import (
    Records,
    _gpu_step,
    _read,
    mean_of_measured,
    mean_of_predicted,
    shipped,
    told_recordings,
    work_key,
)
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


def step(value: float, by: float = 1.1) -> Estimate:
    return Estimate(value, value / by, value * by, 40, 2, "m", 0.95, positive=True)


def test_the_same_work_is_known_in_whichever_experiment_it_was_recorded():
    env = {"DIM": "1024", "DEPTH": "2", "BATCH": "64"}
    strong = work_key("homework1", "strong-scaling", {}, {**env, "STEPS": "80"})
    assert strong == work_key("homework1", "model-size", {"case": "small"}, {**env, "STEPS": "45"})
    assert strong == work_key("homework1", "delay", {"delay": "0"}, {**env, "DELAY": "0"})
    assert strong != work_key("homework1", "delay", {"delay": "0.01"}, {**env, "DELAY": "0.01"})
    assert strong != work_key("homework1", "data-parallel", {}, env)  # another script


def test_a_variable_that_is_not_set_has_the_scripts_own_value():
    code = {"code": "practical7_amp"}
    plain = work_key("homework2", "codes", code, {"DIM": "1024", "LR": "10"})
    assert plain == work_key("practical7", "amp", {"precision": "float16"}, {"DIM": "1024", "PRECISION": "float16"})


def test_recordings_that_disagree_widen_the_mean_and_one_alone_stays():
    one = step(1.0)
    assert mean_of_measured([one]) is one and mean_of_predicted([one]) is one
    alike, apart = (mean_of_measured([step(1.0), step(by), step(1.0)]) for by in (1.01, 2.0))
    assert apart.high / apart.low > 2 * alike.high / alike.low
    assert mean_of_measured([step(1.0), step(4.0)]).value == pytest.approx(2.0)


def test_the_error_that_predictions_share_does_not_shrink_with_their_number():
    many = mean_of_predicted([step(1.0, 1.5)] * 4)
    assert (many.low, many.high) == pytest.approx((1 / 1.5, 1.5))
    apart = mean_of_predicted([step(1.0, 1.5), step(2.0, 1.5)])
    assert apart.high / apart.value > 1.6


def test_every_table_of_the_course_has_one_step_for_one_configuration():
    known = shipped()
    assert known is not None
    found = {}
    for one in known.records:
        base = known.of(one.suite, one.experiment, 1, one.axes)
        shown = _gpu_step(known, known.of(one.suite, one.experiment, one.ranks, one.axes), base)
        if shown is not None:
            found.setdefault((one.work, one.ranks), set()).add((shown.mark, round(shown.step.value, 9)))
    assert {key: steps for key, steps in found.items() if len(steps) > 1} == {}


def test_nothing_recorded_is_nothing_known():
    data = {"schema": 1, "device": "NVIDIA H200", "date": "2026-11-18", "versions": {}, "records": []}
    known = _read(data)
    assert isinstance(known, Records) and known.of("homework1", "delay", 1, {}) is None


def test_the_first_table_says_how_far_the_recordings_of_a_configuration_differ():
    evidence = make_evidence(*strong(ranks=(1,)))
    suite = replace(evidence, loaded=replace(evidence.loaded, name="homework1"))
    assert told_recordings(suite, "strong-scaling").startswith("The step of 1 GPU was recorded 4 times, from 1.11 ms")
    assert told_recordings(suite, "model-size", case="large") == ""
