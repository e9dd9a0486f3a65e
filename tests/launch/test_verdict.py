"""When a run is to be ended, decided from made-up signs of life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.launch.verdict import Exit, Limits, RankView, Verdict, judge

LIMITS = Limits(limit_seconds=100.0, stall_seconds=10.0)
DONE = Exit(0, None, 5.0)


def moving(rank: int, at_seconds: float = 5.0, state: str = "forward", syncs: int = 0) -> RankView:
    return RankView(rank, None, at_seconds, state, 1, syncs)


def test_ranks_that_move_go_on() -> None:
    assert judge([moving(0), moving(1)], 6.0, LIMITS) is None


def test_a_run_is_over_when_every_rank_has_ended() -> None:
    assert judge([RankView(0, DONE), RankView(1, Exit(1, None, 6.0))], 6.0, LIMITS) == Verdict("over")


@pytest.mark.parametrize(("secondary", "grace_seconds"), [(False, 1.0), (True, 3.0)])
def test_after_a_failure_the_others_get_a_short_grace(secondary: bool, grace_seconds: float) -> None:
    ranks = [RankView(0, Exit(1, None, 5.0, secondary)), moving(1)]
    assert judge(ranks, 5.0 + grace_seconds - 0.1, LIMITS) is None
    assert judge(ranks, 5.0 + grace_seconds + 0.1, LIMITS) == Verdict("failed")


def test_one_moving_rank_keeps_the_run_from_being_hung() -> None:
    assert judge([moving(0, 1.0), moving(1, 14.0)], 15.0, LIMITS) is None
    assert judge([moving(0, 1.0), moving(1, 4.0)], 15.0, LIMITS) == Verdict("hung")


def test_a_rank_without_a_sign_of_life_may_still_be_importing_torch() -> None:
    assert judge([RankView(0)], 59.0, LIMITS) is None
    assert judge([RankView(0)], 61.0, LIMITS) == Verdict("hung")


def test_a_long_stall_limit_holds_for_the_start_as_well() -> None:
    patient = Limits(limit_seconds=500.0, stall_seconds=90.0)
    assert judge([RankView(0)], 89.0, patient) is None
    assert judge([RankView(0)], 91.0, patient) == Verdict("hung")


def test_the_first_sign_of_life_starts_the_clock_of_a_standstill() -> None:
    assert judge([moving(0, 20.0, "starting")], 29.0, LIMITS) is None
    assert judge([moving(0, 20.0, "starting")], 31.0, LIMITS) == Verdict("hung")


def test_time_in_which_a_rank_was_ready_but_had_no_core_is_no_standstill() -> None:
    crowded = RankView(0, None, 5.0, "starting", queued_seconds=9.0)
    assert judge([crowded, moving(1, 4.0)], 23.9, LIMITS) is None
    assert judge([crowded, moving(1, 4.0)], 24.1, LIMITS) == Verdict("hung")
    assert judge([RankView(0, queued_seconds=50.0)], 99.0, LIMITS) is None


def test_the_limit_of_the_whole_run_ends_even_what_moves() -> None:
    assert judge([moving(0, 99.9)], 100.0, LIMITS) == Verdict("timed_out")


def test_enough_steps_of_every_rank_end_the_run_in_order() -> None:
    enough = Limits(limit_seconds=100.0, stall_seconds=10.0, enough_steps=20)
    behind, there = RankView(0, None, 5.0, steps=19), RankView(1, None, 5.0, steps=20)
    assert judge([behind, there], 6.0, enough) is None
    assert judge([there, there], 6.0, enough) == Verdict("enough")
    assert judge([there, there], 6.0, LIMITS) is None


def test_a_rank_that_failed_counts_more_than_enough_steps() -> None:
    enough = Limits(limit_seconds=100.0, stall_seconds=10.0, enough_steps=1)
    assert judge([RankView(0, Exit(1, None, 1.0), steps=5), moving(1)], 6.0, enough) == Verdict("failed")


@pytest.mark.parametrize("state", ["backward", "in a collective"])
def test_a_rank_that_left_while_another_waits_for_it_left_early(state: str) -> None:
    gone = RankView(1, DONE, 5.0, "ended", 1, syncs=3)
    assert judge([moving(0, 5.0, state, syncs=4), gone], 7.5, LIMITS) == Verdict("left_early", 1)


@pytest.mark.parametrize(
    ("state", "syncs", "now_seconds"),
    [("forward", 4, 7.5), ("in a collective", 3, 7.5), ("in a collective", 4, 6.5)],
)
def test_nobody_left_early_while_no_one_waits_in_vain(state: str, syncs: int, now_seconds: float) -> None:
    gone = RankView(1, DONE, 5.0, "ended", 1, syncs=3)
    assert judge([moving(0, 5.0, state, syncs), gone], now_seconds, LIMITS) is None


exits = st.none() | st.builds(Exit, st.sampled_from([0, 1, None]), st.none(), st.floats(0, 50), secondary=st.booleans())
views = st.builds(
    RankView,
    st.integers(0, 7),
    exits,
    st.none() | st.floats(0, 200),
    st.sampled_from(["starting", "forward", "backward", "in a collective"]),
    syncs=st.integers(0, 5),
)


@given(st.lists(views, min_size=1, max_size=4), st.floats(0, 300))
def test_every_run_ends_at_its_limit_at_the_latest(ranks: list[RankView], now_seconds: float) -> None:
    verdict = judge(ranks, now_seconds, LIMITS)
    if now_seconds >= LIMITS.limit_seconds:
        assert verdict is not None
    if all(view.exit is not None for view in ranks):
        assert verdict == Verdict("over")
