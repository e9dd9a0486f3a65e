"""H1.5C: waiting is the growth of a step that is not its rank's own."""

from dataclasses import replace

import pytest

from evidence_factories import arm, make_evidence
from scalewise.explain.homework1.h1_5c import answers, imbalance

BASE = 0.010


def uneven(own=0.020, waits=0.020):
    """Rank 0 sleeps `own` in its rest; rank 1 waits `waits` in its backward."""
    even = arm("imbalance", [BASE * (1 + 0.001 * (i % 5)) for i in range(40)], 2, axes={"imbalance": 0})
    late = arm("imbalance", [BASE * (1 + 0.001 * (i % 5)) for i in range(40)], 2, axes={"imbalance": 0.02})
    grown = []
    for record, rest, backward in zip(late.ranks, (own, 0.0), (0.0, waits), strict=True):
        rows = tuple(
            replace(
                row,
                step_ns=row.step_ns + round((rest + backward) * 1e9),
                rest_ns=row.rest_ns + round(rest * 1e9),
                backward_ns=row.backward_ns + round(backward * 1e9),
            )
            for row in record.steps
        )
        grown.append(replace(record, steps=rows))
    return make_evidence(even, replace(late, ranks=tuple(grown)))


def test_the_delay_of_one_rank_is_the_waiting_of_the_other():
    found = imbalance(uneven())
    slow, other = found.slow, found.others[0]
    assert (slow.rank, other.rank) == (0, 1)
    assert slow.own_seconds.value == pytest.approx(0.020, rel=0.01)
    assert slow.waiting_seconds.value == pytest.approx(0.0, abs=2e-4)
    assert other.waiting_seconds.value == pytest.approx(0.020, rel=0.01)


def test_everyone_pays_for_one():
    whole, shows = answers(uneven())
    assert whole.text.startswith("The whole runs at the pace of its slowest rank")
    assert "is a meeting" in shows.text
    assert "moved from rank 0 to the other" in shows.text


def test_a_delay_that_nobody_waits_for_is_said():
    whole, shows = answers(uneven(own=0.001, waits=0.0))
    assert whole.text.startswith("Most of the delay is hidden")
    assert "do not wait for it" in shows.text


def test_one_arm_alone_is_a_hole():
    alone = make_evidence(arm("imbalance", [BASE] * 40, 2, axes={"imbalance": 0}))
    assert all("Not answered" in answer.text for answer in answers(alone))


def test_runs_that_scatter_settle_nothing():
    noisy_runs = [
        arm("imbalance", [BASE * (1 + 3 * ((i * 7) % 5)) for i in range(40)], 2, axes={"imbalance": late})
        for late in (0, 0.02)
    ]
    whole, shows = answers(make_evidence(*noisy_runs))
    assert "cannot be told" in whole.text
    assert "cannot be told" in shows.text
