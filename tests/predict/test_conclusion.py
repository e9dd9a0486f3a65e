"""Everything that follows from an answer, and nothing from an empty one."""

import pytest

from rehearsal_specimen import GIB, answer_of, full_answer, pipeline, shared_model
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.compute_work import ONE_BATCH
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.cost import Training
from taped_steps import SLOW


def test_each_question_has_its_answer():
    found = conclusions_from(full_answer(), 2 * GIB, Training(steps=1000, price_per_gpu_hour=2))
    assert len(found.scaling.rows) == len(found.memory) == len(found.costs) == len(found.changes) == 3
    assert [one.share for one in found.thresholds] == [0.8, 0.5]
    assert found.guesses == ("that a hop costs nothing more: measured among 2 ranks only",)


def test_no_prediction_has_no_conclusions():
    found = conclusions_from(RehearsalAnswer("train.py", (), "cpu", SLOW))
    assert found.scaling is None and found.changes == () and found.costs == ()


def test_strong_scaling_from_one_batch_says_what_is_guessed():
    assert ONE_BATCH in conclusions_from(answer_of((8,), strong=True)).guesses
    assert ONE_BATCH not in conclusions_from(answer_of((8,))).guesses


def test_without_advice_nothing_is_changed():
    assert conclusions_from(answer_of((8,)), advice=False).changes == ()


@pytest.mark.parametrize("answer", [shared_model(), pipeline()], ids=["tensor", "pipeline"])
def test_where_ranks_may_share_a_batch_no_threshold_is_told_but_why(answer):
    found = conclusions_from(answer, advice=False)
    assert found.thresholds == ()
    assert found.scaling.doubt.endswith("So nothing is said of where efficiency falls off.")
    assert any("samples of its own" in guess for guess in found.guesses)


def test_one_rank_has_no_curve_and_no_threshold():
    found = conclusions_from(answer_of((1,)), advice=False)
    assert found.curve == () and found.thresholds == ()
