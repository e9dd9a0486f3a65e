"""What steps of one configuration differ by between experiments widens what promises less."""

import numpy as np

from factories import make_estimate
from scalewise.analysis.same_work import drift_of, with_drift


def steps_of(*milliseconds):
    return [make_estimate(value / 1e3, value / 1e3, value / 1e3, positive=True) for value in milliseconds]


def widened(found, steps):
    return with_drift(found, drift_of(steps), len(steps))


def test_an_interval_that_promises_more_than_the_experiments_show_is_widened_and_says_so():
    steps = steps_of(20, 23, 26, 29)
    narrow = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    wide = widened(narrow, steps)
    assert wide.low < 0.0198 and wide.high > 0.0202 and wide.value == 0.020 and wide.level == narrow.level
    assert wide.method.endswith("widened by the spread between 4 experiments with the same work")
    assert widened(make_estimate(0.020, 0.0198, 0.0202, 0.98, positive=True), steps).high > wide.high


def test_what_their_own_intervals_explain_is_no_drift_and_two_experiments_tell_of_none():
    found = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    assert widened(found, steps_of(20, 24)) is found
    wide = [make_estimate(value, value / 1.3, value * 1.3, positive=True) for value in (1.0, 1.1, 1.2, 1.05)]
    assert drift_of(wide) == 0.0
    narrow = [make_estimate(value, value / 1.01, value * 1.01, positive=True) for value in (1.0, 1.1, 1.2, 1.05)]
    assert 0.06 < drift_of(narrow) < 0.08


def test_widened_intervals_hold_another_experiment_s_step():
    """Experiments differ by 8 %, each one's own interval promises 2 %."""
    random = np.random.default_rng(3)
    held = []
    for _ in range(150):
        steps = 20 * np.exp(0.08 * random.normal(size=7))
        narrow = make_estimate(steps[0] / 1e3, steps[0] / 1.02e3, steps[0] * 1.02 / 1e3, positive=True)
        one, true = widened(narrow, steps_of(*steps[:6])), 0.020
        held.append(one.low <= true <= one.high)
    assert np.mean(held) >= 0.9
