"""Tests of comparing runs by the steps that they took in turn."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_run, make_suite, noisy
from scalewise.analysis.arms import arm_of, arms_of
from scalewise.analysis.comparison import compare_in_turns, compare_runs, compare_suites
from scalewise.analysis.ratio import (
    LEAST_STEPS,
    PAIR_SPREAD,
    StepsInTurn,
    log_difference,
    pair_of,
    pairs_of,
    ratio,
    seconds_difference,
)
from scalewise.analysis.series import series
from scalewise.plan.words import parse_changes
from scalewise.records.spec import Turns


def in_turn(seconds, index, repeat=0, taken=None, **changes):
    """A run of a ring of two; from step `taken` on it was alone."""
    run = make_run(
        seconds, repeat=repeat, turns=Turns(f"ring-{repeat}", index, 2), axes={"arm": "ab"[index]}, **changes
    )
    taken = len(seconds) if taken is None else taken
    ranks = tuple(
        replace(rank, steps=tuple(replace(row, turn_ns=7 if row.step < taken else None) for row in rank.steps))
        for rank in run.ranks
    )
    return replace(run, ranks=ranks, folder=Path("/runs/suite-0") / f"{'ab'[index]}-r{repeat}")


def levels(count, seed):
    """A machine whose speed jumps between two levels every few dozen steps."""
    random = np.random.default_rng(seed)
    return np.repeat(random.choice([0.0026, 0.005], size=count // 20 + 1), 20)[:count]


def two_arms(pairs, slowdown=0.02, steps=120):
    a, b = [], []
    for repeat in range(pairs):
        level, random = levels(steps, repeat), np.random.default_rng(100 + repeat)
        noise = random.normal(0, 0.01, (2, steps))
        a.append(in_turn(level * np.exp(noise[0]), 0, repeat))
        b.append(in_turn(level * np.exp(noise[1]) * (1 + slowdown), 1, repeat))
    return a, b


NUMBERS = st.lists(st.integers(0, 60), unique=True).map(sorted)
TIMES = st.floats(1e-4, 1.0)


@given(NUMBERS, NUMBERS, st.data())
def test_a_pair_rests_on_the_steps_that_both_took_and_on_no_other(ours, theirs, data):
    a_times, b_times = ({number: data.draw(TIMES) for number in numbers} for numbers in (ours, theirs))
    a, b = (StepsInTurn("r", np.array(list(t), dtype=int), np.array(list(t.values()))) for t in (a_times, b_times))
    common = sorted(set(ours) & set(theirs))
    found, back = pair_of(a, b), pair_of(b, a)
    if len(common) < LEAST_STEPS:
        assert found is None and back is None
        return
    assert found is not None and back is not None
    assert found.steps == len(common)
    logs = sorted(math.log(b_times[number] / a_times[number]) for number in common)
    cut = len(logs) // 5
    assert found.log_ratio == pytest.approx(float(np.mean(logs[cut : len(logs) - cut])))
    assert min(b_times[n] - a_times[n] for n in common) <= found.seconds <= max(b_times[n] - a_times[n] for n in common)
    assert (back.log_ratio, back.seconds) == pytest.approx((-found.log_ratio, -found.seconds))


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_runs_are_paired_within_their_ring_whatever_their_order(ours, theirs):
    def side(rings):
        return [StepsInTurn(str(ring), np.arange(20), np.full(20, 1.0 + ring)) for ring in rings]

    pairs = pairs_of(side(ours), side(theirs))
    common = set(ours) & set(theirs)
    assert len(pairs) == (len(common) if 2 * len(common) >= max(len(ours), len(theirs)) else 0)
    assert all(pair.log_ratio == pair.seconds == 0 for pair in pairs)


def test_a_machine_that_changes_its_speed_cancels_step_by_step():
    a, b = two_arms(8)
    found = compare_runs(a, b)
    assert found.answer == "slower"
    assert found.method == "step by step in turns, 8 pairs"
    assert found.change is not None and found.change.value == pytest.approx(0.02, abs=0.005)
    assert found.smallest_visible is not None and found.smallest_visible < 0.02
    assert compare_runs(*two_arms(8, slowdown=0.0)).answer == "cannot tell"


def test_few_pairs_lean_on_the_spread_that_was_measured_for_turns():
    a, b = two_arms(2)
    difference = log_difference(arm_of(a).side(), arm_of(b).side())
    assert difference.assumed_run_cv == PAIR_SPREAD
    assert "step by step in turns, 2 pairs, spread between pairs partly assumed (0.5 %)" in difference.method_text()
    one = compare_runs(a[:1], b[:1])
    assert one.method.startswith("step by step in turns, 1 pair,")
    assert any("five repeats" in note for note in one.notes)


def test_ratio_and_seconds_use_the_same_pairs():
    a, b = (arm_of(runs).side() for runs in two_arms(6))
    assert ratio(b, a).value == pytest.approx(math.exp(log_difference(a, b).middle))
    seconds = seconds_difference(a, b)
    assert seconds.turns == 6 and seconds.middle > 0


def test_rings_of_other_campaigns_and_runs_without_turns_are_no_partners():
    a, b = two_arms(6)
    elsewhere = [replace(run, folder=Path("/runs/other") / run.folder.name) for run in b]
    assert "turns" not in compare_runs(a, elsewhere).method
    alone = [replace(run, spec=replace(run.spec, turns=None)) for run in b]
    assert compare_runs(a, alone).method == "paired by repeat"


def test_a_lost_partner_costs_its_pair_only():
    a, b = two_arms(8)
    assert compare_runs(a, b[1:]).method == "step by step in turns, 7 pairs"
    assert "turns" not in compare_runs(a, b[5:]).method


def test_steps_out_of_turn_do_not_count_as_long_as_most_were_in_turn():
    times = np.concatenate([np.full(60, 0.005), np.full(20, 0.010)])
    kept = series(in_turn(times, 1, taken=60))
    assert kept is not None and (kept.in_turn, kept.counted) == (60, 60)
    assert kept.median().seconds == pytest.approx(0.005)
    assert kept.slowest_seconds.shape == (80,)
    few = series(in_turn(times, 1, taken=20))
    assert few is not None and (few.in_turn, few.counted) == (20, None)
    alone = series(make_run(times))
    assert alone is not None and alone.in_turn is None and alone.median().steps > 70


def test_every_rank_must_have_been_in_turn():
    run = in_turn([0.005] * 40, 0, ranks=2)
    second = replace(
        run.ranks[1], steps=tuple(replace(r, turn_ns=None) if r.step >= 30 else r for r in run.ranks[1].steps)
    )
    found = series(replace(run, ranks=(run.ranks[0], second)))
    assert found is not None and found.in_turn == 30


def test_a_suite_says_how_each_arm_differs_from_the_first_it_took_turns_with():
    a, b = two_arms(6)
    delay = parse_changes("sleep_before_backward:0.0001")
    b = [replace(run, spec=replace(run.spec, axes={}, changes=delay)) for run in b]
    a = [replace(run, spec=replace(run.spec, axes={})) for run in a]
    (found,) = compare_in_turns(arms_of([*a, *b]))
    assert (found.a, found.answer) == ("1 rank", "slower")
    assert found.b == "sleep before backward 0.1 ms, 1 rank"
    assert compare_in_turns(arms_of([make_run(noisy(40, 0.005, 1))])) == ()


def test_two_runs_of_one_ring_are_compared_step_by_step_when_they_are_named():
    a, b = two_arms(1)
    (found,) = compare_suites(make_suite(*a), make_suite(*b))
    assert found.method.startswith("step by step in turns, 1 pair")


@pytest.mark.parametrize("pairs", [5, 10])
def test_equal_arms_are_rarely_called_different_and_two_percent_are_found(pairs):
    """Pairs as they were measured: spread 0.5 %; the level of the machine is common and does not matter."""
    random = np.random.default_rng(pairs)
    trials, wrong, found = 400, 0, 0
    side = arm_of([make_run([1.0] * 9)] * pairs).side()
    for _ in range(trials):
        for slowdown in (0.0, 0.02):
            shifts = random.normal(slowdown, PAIR_SPREAD, pairs)
            rings = [str(number) for number in range(pairs)]
            a = [StepsInTurn(ring, np.arange(9), np.ones(9)) for ring in rings]
            b = [
                StepsInTurn(ring, np.arange(9), np.full(9, math.exp(s))) for ring, s in zip(rings, shifts, strict=True)
            ]
            difference = log_difference(replace(side, in_turn=tuple(a)), replace(side, in_turn=tuple(b)))
            called = abs(difference.middle) > difference.reach(0.98)
            wrong += called and not slowdown
            found += called and bool(slowdown)
    assert wrong <= 0.05 * trials
    assert found >= 0.95 * trials


def test_arms_of_a_ring_stand_in_its_order_whichever_started_first():
    first, second = in_turn([0.01] * 40, 0), in_turn([0.01] * 40, 1)
    later = tuple(
        replace(rank, start=replace(rank.start, started_unix_seconds=rank.start.started_unix_seconds + 1))
        for rank in first.ranks
    )

    arms = arms_of([second, replace(first, ranks=later)])

    assert [arm.spec.axes["arm"] for arm in arms] == ["a", "b"]
