"""Several recordings of one configuration on a GPU make one step, whichever table asks for it."""

from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from homework1_evidence import strong
from scalewise.analysis.estimate import Estimate
from scalewise.course.gpus import Records, _gpu_step, _read, shipped, told_recordings
from scalewise.course.recordings import mean_of_measured, mean_of_predicted, work_key


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
