"""H1.5A: a delay is serial time; the prediction follows it, and opposite speedups give opposite answers."""

from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from homework1_evidence import strong
from scalewise.explain.homework1.h1_5a import AMDAHL, EFFECT, amdahl_answer, answers, delay, effect_answer


def delayed(exchange=0.0, added=0.010, more=0.0, **changes):
    """`more` is added on several ranks only, so that the law is broken."""
    plain = strong("delay", exchange=exchange, removed=False, axes={"delay": 0}, **changes)
    late = strong(
        "delay", overhead=1e-3 + added, exchange=exchange + more, removed=False, axes={"delay": 0.01}, **changes
    )
    return make_evidence(*plain, *late)


def test_a_delay_makes_a_good_speedup_worse_as_amdahl_predicts():
    effect, law = answers(delayed())
    assert effect.text.startswith("It makes scaling worse")
    assert "Time is linear in the delay, speedup is not" in effect.text
    assert "The law holds" in law.text


def test_a_delay_draws_a_slowdown_towards_one_and_nothing_is_gained():
    effect, _ = answers(delayed(exchange=0.050))
    assert effect.text.startswith("The speedup rises, and nothing is gained")


def test_the_prediction_is_amdahls_with_the_delay_serial():
    found = delay(delayed())
    two = next(row for row in found.rows if row.ranks == 2)
    assert two.predicted.value == pytest.approx((7.4 + 10) / (4.2 + 10), rel=0.01)
    assert found.serial_seconds.value == pytest.approx(0.010, rel=0.01)
    assert found.serial_fraction.value == pytest.approx(11 / 17.4, rel=0.02)


def test_a_delay_that_costs_more_on_several_ranks_breaks_the_law():
    effect, law = answers(delayed(more=0.020))
    assert "The law misses" in law.text
    assert "not the delay itself" in effect.text


def test_oversubscribed_ranks_get_no_prediction():
    found = delay(delayed(ranks=(1, 2), oversubscribed=True))
    assert all(row.predicted is None for row in found.rows)
    assert "Not answered" in answers(delayed(ranks=(1, 2), oversubscribed=True))[0].text


def test_one_rank_alone_bounds_every_speedup():
    (both,) = answers(delayed(ranks=(1,)))
    assert "more than 1.74 [" in both.text
    assert both.question == f"{EFFECT} {AMDAHL}"


def widened(found, share):
    """The same with measured speedups known only to within this share of them."""
    rows = []
    for row in found.rows:
        speedup = row.delayed.scaling.speedup
        wide = replace(speedup, low=speedup.value * (1 - share), high=speedup.value * (1 + share))
        scaling = replace(row.delayed.scaling, speedup=wide)
        rows.append(replace(row, delayed=replace(row.delayed, scaling=scaling)))
    return replace(found, rows=tuple(rows))


@pytest.mark.parametrize(("share", "said"), [(0.05, "The law holds"), (0.5, "too wide to test the law")])
def test_an_interval_that_agrees_with_anything_confirms_nothing(share, said):
    evidence = delayed()
    answer = amdahl_answer(evidence, widened(delay(evidence), share))
    assert said in answer.text
    assert "at most 20 % to be a test" in answer.condition


def test_growth_that_is_hardly_known_is_not_called_the_delay():
    evidence = delayed()
    found = delay(evidence)
    rows = [replace(row, growth_seconds=replace(row.growth_seconds, low=-0.005, high=0.022)) for row in found.rows]
    text = effect_answer(evidence, replace(found, rows=tuple(rows))).text
    assert "cannot tell whether that is the delay itself" in text
    assert "Time is linear" not in text
