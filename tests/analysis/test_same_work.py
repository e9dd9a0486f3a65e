"""One configuration measured by several experiments is found, counted, and its spread widens what promises less."""

import numpy as np
import pytest

from factories import make_estimate, make_run
from scalewise.analysis.same_work import drift_of, same_work

ENV = {"DIM": "1024", "BATCH": "64"}


def run_of(experiment, seconds, *, env=None, repeat=0, ranks=2, **changes):
    name = f"{experiment}-r{ranks}-{repeat}-{changes.get('axes', '')}"
    env = ENV if env is None else env
    return make_run(
        [seconds] * 40, experiment=experiment, env=env, repeat=repeat, ranks=ranks, name=name, **changes
    )  # fmt: skip


def test_arms_of_several_experiments_with_the_same_work_are_found_and_counted():
    runs = [
        run_of("scaling", 0.020, env={**ENV, "STEPS": "100"}),
        run_of("size", 0.022, env={**ENV, "STEPS": "45"}),
        run_of("delay", 0.024, env={**ENV, "DELAY": "0.0"}, axes={"delay": 0}),
        run_of("delay", 0.034, env={**ENV, "DELAY": "0.01"}, axes={"delay": 0.01}),
        run_of("scaling", 0.030, ranks=1),
    ]
    (found,) = same_work(runs, regardless_of=("STEPS",), nothing_at_zero=("DELAY",))
    assert found.count == 3 and {one.experiment for one in found.arms} == {"scaling", "size", "delay"}
    assert (found.lowest.value, found.highest.value) == pytest.approx((0.020, 0.024))
    assert found.drift == pytest.approx(np.std(np.log([20, 22, 24]), ddof=1)), (
        "steps without any spread explain nothing"
    )
    assert found.holds(found.arms[1].run_names) and not found.holds(("another",))


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {**ENV, "DIM": "2048"}},
        {"ranks": 1},
        {"script": "/other.py"},
        {"samples_in_all": 16},
        {"oversubscribed": True},
    ],
    ids=str,
)
def test_whatever_else_differs_is_other_work(changes):
    assert same_work([run_of("scaling", 0.02), run_of("size", 0.02, **changes)]) == ()


def test_one_experiment_is_not_several_and_a_zero_counts_where_nobody_says_that_it_does_nothing():
    assert same_work([run_of("scaling", 0.02), run_of("scaling", 0.02, repeat=1)]) == ()
    zero = run_of("sync", 0.02, env={**ENV, "NO_SYNC": "0"})
    assert same_work([run_of("scaling", 0.02), zero], nothing_at_zero=("DELAY",)) == ()
    assert same_work([]) == ()


def spread_over(*milliseconds):
    (found,) = same_work([run_of(f"e{index}", value / 1e3) for index, value in enumerate(milliseconds)])
    return found


def test_an_interval_that_promises_more_than_the_experiments_show_is_widened_and_says_so():
    found = spread_over(20, 23, 26, 29)
    narrow = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    wide = found.widen(narrow)
    assert wide.low < 0.0198 and wide.high > 0.0202 and wide.value == 0.020 and wide.level == narrow.level
    assert wide.method.endswith("widened by the spread between 4 experiments with the same work")
    assert found.widen(make_estimate(0.020, 0.0198, 0.0202, 0.98, positive=True)).high > wide.high


def test_what_their_own_intervals_explain_is_no_drift_and_two_experiments_tell_of_none():
    found = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    assert spread_over(20, 24).widen(found) is found
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
        found = spread_over(*steps[:6])
        narrow = make_estimate(steps[0] / 1e3, steps[0] / 1.02e3, steps[0] * 1.02 / 1e3, positive=True)
        one, true = found.widen(narrow), 0.020
        held.append(one.low <= true <= one.high)
    assert np.mean(held) >= 0.9
