"""Tests of the check for more threads than cores."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case
from data_sheets import replay
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain, case_of
from scalewise.doctor.checks.threads_per_rank import examine, settle


def threaded(threads, affinity, ranks=2, **run):
    case = make_case(Sheet().windows(3), ranks=ranks, **run)
    records = tuple(
        replace(record, start=replace(record.start, threads=threads, affinity=tuple(affinity(record.rank))))
        for record in case.run.ranks
    )
    return case_of(replace(case.run, ranks=records))


def pinned(rank):
    return (rank,)


def anywhere(rank):
    return range(4)


def test_more_threads_than_cores_are_a_suspicion_until_replayed():
    case = threaded(4, anywhere)
    (finding,) = examine(case)
    assert finding.severity == "slow" and finding.proof == "suspected" and not finding.counts
    assert "2 ranks compute with 8 threads (4 each) on 4 cores" in finding.sentence
    assert finding.change.settings == {"count": 2}
    assert "torch.set_num_threads(2)" in finding.fix


def test_pinned_ranks_have_their_own_cores_only():
    (finding,) = examine(threaded(2, pinned))
    assert "4 threads" in finding.sentence and finding.change.settings == {"count": 1}


def test_a_thread_per_core_is_right():
    assert examine(threaded(1, pinned)) == ()
    assert examine(threaded(2, anywhere)) == ()


def test_more_ranks_than_cores_are_not_a_matter_of_threads():
    assert examine(threaded(1, lambda rank: (0,), ranks=3)) == ()


def test_what_torch_chose_by_itself_is_not_the_scripts_doing():
    with pytest.raises(Abstain, match="torch itself chose 8 threads for 4 cores"):
        examine(threaded(4, anywhere, threads_per_rank=None))
    assert examine(threaded(6, anywhere, threads_per_rank=None))


def test_ranks_on_gpus_are_left_alone():
    with pytest.raises(Abstain, match="GPUs"):
        examine(threaded(8, pinned, model={"devices": ("cuda:0",)}))


def test_a_rank_that_is_alone_may_use_all():
    with pytest.raises(Abstain, match="two ranks"):
        examine(threaded(8, anywhere, ranks=1))


def test_a_replay_with_fewer_threads_proves_and_prices_it():
    case = threaded(4, anywhere)
    (finding,) = examine(case)
    faster = settle(case, finding, replay("threads", case, case, saved=(6.0, 5.0, 7.0)))
    assert faster.proof == "replayed" and faster.counts and faster.price.value == 6.0
    assert settle(case, finding, replay("threads", case, case, saved=(-1.0, -2.0, -0.1))).proof == "suspected"
    assert settle(case, finding, replay("threads", case, case, saved=(0.1, -1.0, 1.0))).proof == "suspected"


@given(st.integers(1, 16), st.integers(2, 4), st.integers(1, 16))
def test_it_is_silent_whenever_every_thread_has_a_core(threads, ranks, cores):
    found = examine(threaded(threads, lambda rank: range(cores), ranks=ranks))
    assert bool(found) == (threads * ranks > max(cores, ranks))
