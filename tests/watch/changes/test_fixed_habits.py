"""Fixes of what public scripts get wrong, in real ranks, against the same script mended by hand."""

import json

import pytest

from scalewise.records.examination import MeasuredRow
from scalewise.records.rows import EndRow, TroubleRow
from scalewise.records.spec import Change

SCRIPT = "changed_habits.py"


def _mended(runner, habit, change, ranks=2, **settings):
    ran = runner.watched(SCRIPT, habit, ranks=ranks, changes=(Change(change, settings),))
    assert set(ran.codes) == {0}, ran.stderr
    assert not [row for row in ran.rows(0).rows if isinstance(row, TroubleRow)]
    return ran


def _by_hand(runner, habit, *args, ranks=2):
    ran = runner.raw(SCRIPT, habit, *args, ranks=ranks)
    assert set(ran.codes) == {0}, ran.stderr
    return ran


def _said(ran, rank=0):
    return json.loads(ran.stdout[rank])


def _applied(ran, name, rank=0):
    (end,) = [row for row in ran.rows(rank).rows if isinstance(row, EndRow)]
    return end.changes_applied.get(name, 0)


def test_a_split_with_one_seed_for_all_is_the_same_on_every_rank(runner):
    plain = _by_hand(runner, "split")
    assert _said(plain, 0) != _said(plain, 1)
    ran = _mended(runner, "split", "same_split")
    assert _said(ran, 0) == _said(ran, 1) == _said(_by_hand(runner, "split", "mended"))


def test_evaluation_mode_from_outside_is_eval_bit_by_bit_and_tells_how_far_the_outputs_were_off(runner):
    ran = _mended(runner, "evaluate", "eval_mode")
    assert ran.stdout == _by_hand(runner, "evaluate", "mended").stdout
    assert ran.stdout != _by_hand(runner, "evaluate").stdout
    assert _applied(ran, "eval_mode") == 4
    apart = [row.value for row in ran.rows(0).rows if isinstance(row, MeasuredRow)]
    assert len(apart) == 4 and all(value > 0 for value in apart)


def test_ranks_weighted_from_outside_learn_what_the_weighted_loss_teaches(runner):
    wanted = _said(_by_hand(runner, "tokens", "mended"))["weights"]
    ran = _mended(runner, "tokens", "weigh_ranks")
    assert _said(ran)["weights"] == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    assert _said(_by_hand(runner, "tokens"))["weights"] != pytest.approx(wanted, rel=1e-3)


def test_generators_seeded_apart_draw_apart(runner):
    plain = _by_hand(runner, "seeds")
    assert _said(plain, 0) == _said(plain, 1)
    ran = _mended(runner, "seeds", "seed_by_rank")
    drawn = [_said(ran, rank)["drawn"] for rank in (0, 1)]
    assert not set(drawn[0]) & set(drawn[1])


@pytest.mark.parametrize(
    ("settings", "workers"),
    [({"count": 2}, [2, 2, 0]), ({"count": 0}, [0, 0, 0]), ({"count": 2, "loader": 0}, [2, 1, 0])],
)
def test_loaders_get_other_workers_and_give_the_same_batches(runner, settings, workers):
    ran = _mended(runner, "workers", "workers", ranks=1, **settings)
    assert _said(ran)["workers"] == workers  # a stream would be read once by each of them, and stays
    assert _said(ran)["seen"] == _said(_by_hand(runner, "workers", ranks=1))["seen"]


def test_workers_can_be_an_arm_of_a_measurement(runner):
    ran = runner.watched(SCRIPT, "workers", ranks=1, changes=(Change("workers", {"count": 2}),))
    assert _said(ran)["workers"] == [2, 2, 0] and _applied(ran, "workers") == 2
