"""Answers for machines: whole, finite, and without tapes."""

import json

from rehearsal_specimen import full_answer, shared_model
from scalewise.jobs.as_json import rehearsal_json
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.cost import Training


def _intervals(told):
    """Everything in the JSON that has a lower and an upper end."""
    if isinstance(told, dict):
        if {"low", "high"} <= set(told):
            yield told
        for value in told.values():
            yield from _intervals(value)
    elif isinstance(told, list):
        for value in told:
            yield from _intervals(value)


def test_everything_people_are_shown_is_there_for_machines():
    answer = full_answer()
    found = rehearsal_json(answer, conclusions_from(answer, 2**31, Training(steps=10, price_per_gpu_hour=1.0)))
    told = json.loads(json.dumps(found, allow_nan=False))
    assert [row["ranks"] for row in told["scaling"]["rows"]] == [2, 8, 64]
    assert told["scaling"]["rows"][0]["measured"]["step"]["value"] > 0
    assert told["scaling"]["rows"][1]["measured"] is None
    levels = [found["level"] for found in _intervals(told)]
    assert told["level"] == 0.90 and len(levels) > 20 and set(levels) == {0.90}
    assert {"value", "low", "high", "level"} <= set(told["at"][0]["predicted"])
    assert told["checks"][0]["inside"] is True
    assert told["thresholds"][0]["share"] == 0.8
    assert told["changes"][-1]["changes"][0]["gain"]["value"] > 1
    assert told["memory"][0]["largest_batch"] == 256 and told["costs"][0]["cost"]["value"] > 0
    assert told["refused"][0]["ranks"] == 1024 and told["guesses"] and told["warnings"]
    assert "tapes" not in json.dumps(told)


def test_machines_are_told_of_samples_in_doubt():
    answer = shared_model()
    told = rehearsal_json(answer, conclusions_from(answer, advice=False))
    assert "tensor or pipeline parallel" in told["scaling"]["doubt"]
    assert told["thresholds"] == [] and any("samples of its own" in guess for guess in told["guesses"])
