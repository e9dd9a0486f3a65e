"""Ranks that wait for each other take as long as the slowest at every message, and one rank's law is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import APART, Sharing, simulate
from scalewise.predict.together import MOST_RANKS, steps_together


def step(*pieces: float, message: float = 1.0, ranks: int = 2) -> Tape:
    """Computing, then a message that is waited for, again and again; the last piece is computed after all of them."""
    entries: list[object] = []
    for number, seconds in enumerate(pieces[:-1]):
        entries += [Compute(seconds, "backward"), Issue(number, "all_reduce", message, 0), Wait(number)]
    return Tape((*entries, Compute(pieces[-1], "optimizer")), ranks=ranks, rank=0, samples=None)


def by_size(issue: Issue) -> float:
    return issue.size_bytes


def test_the_slowest_counts_at_every_message():
    one, other = [step(3.0, 1.0, 2.0)] * 4, [step(1.0, 3.0, 2.0)] * 4
    assert steps_together([one, other], 2, by_size) == pytest.approx([10.0] * 4)  # 3 and 3 and 2 of computing, 2 sent
    assert simulate(one[0], by_size).step_seconds == pytest.approx(8.0)


def test_whoever_ends_early_waits_in_its_next_step():
    one, other = [step(1.0, 5.0)] * 3, [step(1.0, 1.0)] * 3
    # The other begins each further step 4 s earlier, and waits them for the first message.
    assert steps_together([one, other], 2, by_size) == pytest.approx([7.0, 7.0, 7.0])
    alternating = steps_together([[one[0], other[0]] * 3, [other[0], one[0]] * 3], 2, by_size)
    assert alternating[0] == pytest.approx(7.0)
    assert alternating[1:] == pytest.approx([11.0] * 5)  # it waited 4 s of a step that then took 7


def test_one_process_stands_for_several_ranks_at_other_steps():
    seldom = [step(1.0, 0.0)] * 3 + [step(5.0, 0.0)]
    alone = [simulate(tape, by_size).step_seconds for tape in seldom]
    assert steps_together([seldom], 2, by_size) == pytest.approx([2.0, 2.0, 6.0, 6.0])
    assert steps_together([seldom], 4, by_size) == pytest.approx([6.0] * 4)
    assert alone == pytest.approx([2.0, 2.0, 2.0, 6.0])


def test_a_message_is_carried_only_when_its_last_rank_has_come():
    quick, slow = [step(1.0, 4.0, message=2.0)] * 2, [step(3.0, 4.0, message=2.0)] * 2
    free = steps_together([quick, slow], 2, by_size)
    assert free == pytest.approx([9.0, 9.0])
    assert steps_together([quick, slow], 2, by_size, Sharing(work=1.0)) == pytest.approx(
        free
    )  # nobody computes beside it


def test_messages_are_beside_each_other_from_the_first_rank_on():
    """The quick rank comes to the second message at 2.5 s, the slow one at 5 s; the first message ends at 4 s."""

    def buckets(between: float) -> Tape:
        entries = (Compute(1.0), Issue(0, "all_reduce", 3.0, 0), Compute(between), Issue(1, "all_reduce", 3.0, 0))
        return Tape((*entries, Wait(0), Wait(1)), ranks=2, rank=0, samples=None)

    quick, slow = [buckets(1.5)] * 2, [buckets(4.0)] * 2
    longer = Sharing(beside_seconds=2.0)
    assert steps_together([quick, slow], 2, by_size, longer) == pytest.approx([10.0, 10.0])  # 5 s, 3 s and 2 s more
    assert steps_together([slow, slow], 2, by_size, longer) == pytest.approx([8.0, 8.0])  # the first had ended
    saved = Sharing(beside_seconds=-1.0)
    assert steps_together([quick, slow], 2, by_size, saved) == pytest.approx([8.0, 8.0])  # nothing was left to save


@pytest.mark.parametrize(
    "processes",
    [
        [[step(1.0, 1.0)]],  # a single step
        [[step(1.0, 1.0)] * 3, [step(1.0, 1.0, message=2.0)] * 3],  # other messages
        [[step(1.0, 1.0)] * 3, [step(1.0, 1.0, 1.0)] * 3],
        [[Tape((Issue(0, "all_reduce", 1.0, 2), Wait(0)), ranks=8, rank=0, samples=None)] * 3],  # among some ranks only
        [],
    ],
)
def test_nothing_is_said_of_ranks_that_do_not_all_send_the_same(processes):
    assert steps_together(processes, 8, by_size) is None


durations = st.floats(0.001, 0.1)
sharings = st.builds(Sharing, work=st.floats(0, 3), beside_seconds=st.floats(-0.05, 0.05))


@st.composite
def ddp(draw, least: int = 1):
    """Steps of one kind with a few buckets, which are waited for at the end of backward."""
    buckets = draw(st.lists(st.floats(0, 0.1), min_size=least, max_size=4))

    def made() -> Tape:
        entries: list[object] = [Compute(draw(durations), "forward")]
        for number, size in enumerate(buckets):
            entries += [Compute(draw(durations), "backward"), Issue(number, "all_reduce", size, 0)]
        entries += [Wait(number) for number in range(len(buckets))]
        return Tape((*entries, Compute(draw(durations), "optimizer")), ranks=4, rank=0, samples=None)

    return [[made() for _ in range(3)] for _ in range(draw(st.integers(1, 3)))]


@given(ddp(), sharings, st.integers(2, MOST_RANKS))
def test_equal_ranks_take_as_long_as_one(processes, sharing, ranks):
    equal = [[processes[0][0]] * 3]
    alone = simulate(processes[0][0], by_size, sharing).step_seconds
    assert steps_together(equal, ranks, by_size, sharing) == pytest.approx([alone] * 3, abs=1e-9)


@given(ddp())
def test_no_rank_is_waited_for_less_than_it_takes_alone(processes):
    found = steps_together(processes, len(processes) + 1, by_size)
    for number, seconds in enumerate(found or ()):
        slowest = max(simulate(tapes[number], by_size, APART).step_seconds for tapes in processes)
        assert seconds >= slowest - 1e-9
