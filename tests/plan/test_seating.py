"""Laws of dividing cores among ranks."""

from hypothesis import given
from hypothesis import strategies as st

from scalewise.plan.seating import seats, share_size

CORES = st.sets(st.integers(0, 255), min_size=1, max_size=64).map(sorted)
WORLDS = st.lists(st.integers(1, 128), min_size=1, max_size=5, unique=True)


@given(CORES, WORLDS)
def test_every_share_has_the_same_size_for_every_world_size(cores, worlds):
    sizes = {len(share) for ranks in worlds for share in seats(cores, ranks, worlds).shares}
    assert sizes == {share_size(len(cores), worlds)}


@given(CORES, WORLDS)
def test_shares_are_disjoint_unless_the_run_is_oversubscribed(cores, worlds):
    for ranks in worlds:
        seated = seats(cores, ranks, worlds)
        used = [core for share in seated.shares for core in share]
        assert (len(set(used)) < len(used)) == seated.oversubscribed
        assert set(used) <= set(cores)


@given(CORES, WORLDS)
def test_every_rank_has_a_seat_and_one_rank_has_one_share(cores, worlds):
    for ranks in worlds:
        assert len(seats(cores, ranks, worlds).shares) == ranks


@given(CORES, WORLDS)
def test_no_world_size_that_fits_the_cores_is_oversubscribed(cores, worlds):
    for ranks in worlds:
        assert seats(cores, ranks, worlds).oversubscribed == (ranks > len(cores) // share_size(len(cores), worlds))
        if ranks <= len(cores):
            assert not seats(cores, ranks, worlds).oversubscribed


def test_one_rank_of_an_experiment_over_two_gets_half_of_the_cores():
    assert seats([4, 5, 6, 7], 1, [1, 2]).shares == ((4, 5),)
    assert seats([4, 5, 6, 7], 2, [1, 2]).shares == ((4, 5), (6, 7))


def test_ranks_beyond_the_shares_begin_again_at_the_first():
    seated = seats([0, 1], 4, [1, 2, 4])
    assert seated.shares == ((0,), (1,), (0,), (1,))
    assert seated.oversubscribed


def test_without_known_cores_nothing_is_pinned():
    assert seats([], 2, [1, 2]).shares == ()
