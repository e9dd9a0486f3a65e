"""Tests of speedup, efficiency and serial fraction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_outcome, make_run, noisy
from scalewise.analysis.arms import arms_of
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.scaling import scaling_figures, scaling_of, serial_fraction
from scalewise.plan.words import parse_changes


def found(*runs):
    arms = arms_of(runs)
    return {arm.label: scaling_of(arm, arms) for arm in arms}


def scaled(ranks, seconds, **changes):
    return make_run(noisy(60, seconds, ranks), ranks=ranks, **changes)


def test_strong_scaling_against_the_fewest_ranks():
    one, two = found(scaled(1, 0.010), scaled(2, 0.006)).values()
    assert (one.base, one.speedup.value, one.speedup.low) == ("1 rank", 1.0, 1.0)
    assert (two.kind, two.base) == ("strong", "1 rank")
    assert two.speedup.value == pytest.approx(1.667, rel=0.05)
    assert two.efficiency.value == pytest.approx(two.speedup.value / 2)
    assert two.speedup.low < two.speedup.value < two.speedup.high
    assert two.serial_fraction.value == pytest.approx(0.2, abs=0.06)


def test_weak_scaling_is_seen_from_equal_samples_per_rank():
    two = found(scaled(1, 0.010, samples_in_all=64), scaled(2, 0.0125, samples_in_all=128))["2 ranks"]
    assert two.kind == "weak"
    assert two.efficiency.value == pytest.approx(0.8, rel=0.05)
    assert two.speedup.value == pytest.approx(1.6, rel=0.05)
    assert two.serial_fraction is None


@pytest.mark.parametrize(("declared", "samples"), [("strong", 128), ("weak", 64)])
def test_a_declared_scaling_that_the_samples_contradict_is_refused(declared, samples):
    two = found(scaled(1, 0.01, scaling=declared), scaled(2, 0.01, scaling=declared, samples_in_all=samples))["2 ranks"]
    assert two.speedup is None
    assert two.refusal.startswith("samples per ")


def test_an_oversubscribed_arm_has_no_speedup():
    two = found(scaled(1, 0.010), scaled(2, 0.006, oversubscribed=True))["2 ranks"]
    assert (two.speedup, two.refusal) == (None, "oversubscribed, not scaling")


def test_an_emulated_arm_has_no_speedup_over_fewer_ranks():
    two = found(scaled(1, 0.010), scaled(2, 0.006, emulated=True))["2 ranks"]
    assert (two.speedup, two.refusal) == (None, "emulated, not scaling")


def test_a_base_that_failed_or_was_not_run_is_named():
    failed = scaled(1, 0.01, outcome=make_outcome("killed", "x"))
    assert found(failed, scaled(2, 0.006))["2 ranks"].refusal == "its base failed (1 rank)"
    absent = found(scaled(2, 0.006, base={"ranks": 1}))["2 ranks"]
    assert absent.refusal == "its base was not run (change none, ranks 1)"


def test_a_named_base_keeps_everything_else_the_same():
    runs = [
        make_run(noisy(60, seconds, 3), ranks=ranks, axes={"dim": dim}, base={"dim": 1}, name=f"{ranks}{dim}")
        for ranks, dim, seconds in ((1, 1, 0.01), (1, 2, 0.02), (2, 1, 0.01), (2, 2, 0.02))
    ]
    result = found(*runs)
    assert result["dim 2, 2 ranks"].base == "dim 1, 2 ranks"
    assert result["dim 2, 2 ranks"].speedup.value == pytest.approx(0.5)
    assert result["dim 2, 2 ranks"].efficiency is None


def test_arms_with_a_change_have_their_own_base_unless_the_suite_names_another():
    sleep = parse_changes("sleep_before_backward:0.01")
    own = found(scaled(1, 0.01), scaled(1, 0.02, changes=sleep), scaled(2, 0.016, changes=sleep))
    assert own["sleep before backward 10 ms, 2 ranks"].base == "sleep before backward 10 ms, 1 rank"
    base = {"change": "none"}
    named = found(scaled(1, 0.01, base=base), scaled(1, 0.02, changes=sleep, base=base))
    assert named["sleep before backward 10 ms, 1 rank"].speedup.value == pytest.approx(0.5, rel=0.05)


def test_no_scaling_gives_no_figures():
    two = found(scaled(1, 0.01, scaling="none"), scaled(2, 0.01, scaling="none"))["2 ranks"]
    assert (two.speedup, two.refusal) == (None, "")


def test_samples_that_could_not_be_seen_are_refused_or_noted():
    unseen = {"samples_in_all": None}
    assert "cannot verify" in found(scaled(1, 0.01, **unseen), scaled(2, 0.01, **unseen))["2 ranks"].refusal
    declared = found(scaled(1, 0.01, scaling="strong", **unseen), scaled(2, 0.01, scaling="strong", **unseen))
    assert declared["2 ranks"].speedup is not None
    assert "as the suite declares" in declared["2 ranks"].note


SPEEDUPS = st.floats(0.05, 64).flatmap(
    lambda value: st.floats(0.5, 1).map(lambda part: Estimate(value, value * part, value / part, 1, 1, "", 0.95))
)


@given(SPEEDUPS, st.integers(2, 64))
def test_karp_and_flatt_invert_amdahl(speedup, ranks):
    fraction = serial_fraction(speedup, ranks)
    assert 1 / (fraction.value + (1 - fraction.value) / ranks) == pytest.approx(speedup.value)
    assert fraction.low <= fraction.value <= fraction.high


@given(SPEEDUPS, st.integers(2, 64))
def test_efficiency_is_speedup_over_growth_in_both_scalings(faster, growth):
    for kind in ("strong", "weak"):
        result = scaling_figures(faster, growth, kind, "base")
        assert result.efficiency.value == pytest.approx(result.speedup.value / growth)
