"""Tests of the check for equal random numbers in ranks, workers and epochs."""

import pytest
from case_factory import Sheet, make_case, make_seed
from data_sheets import LINE, batches_of, feed, loader_of, two

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.worker_seeds_equal import examine

EPOCH, OTHER = batches_of(list(range(24))), batches_of(list(range(24, 48)))


def seed(worker, state, *, generator="numpy", used=True):
    return make_seed(worker=worker, states={generator: state}, used={generator: used})


def rank(*seeds, batches=EPOCH, **loader):
    sheet = feed(loader_of(Sheet(), knows_ranks=True, drawn=32, **loader), batches)
    for one in seeds:
        sheet.row(one)
    return sheet


def test_workers_that_begin_alike_draw_alike():
    case = two(rank(seed(0, "a"), seed(1, "a")), rank(seed(0, "b"), seed(1, "b"), batches=OTHER))
    (finding,) = examine(case)
    assert finding.severity == "wrong" and finding.proof == "observed"
    assert "Workers 0, 1" in finding.sentence and "numpy" in finding.sentence
    assert "worker_init_fn" in finding.fix and "np.random.seed" in finding.fix
    assert finding.where.text == LINE


def test_a_state_that_nobody_draws_from_is_no_fault():
    same = [seed(0, "a", used=False), seed(1, "a", used=False)]
    assert examine(two(rank(*same), rank(*same, batches=OTHER))) == ()


def test_ranks_that_begin_alike_draw_alike():
    (finding,) = examine(
        two(rank(seed(-1, "a", generator="torch")), rank(seed(-1, "a", generator="torch"), batches=OTHER))
    )
    assert "Ranks 0 and 1" in finding.sentence and finding.ranks == (0, 1)
    assert "torch.distributed.get_rank()" in finding.fix and "torch.manual_seed" in finding.fix


def test_ranks_with_equal_batches_are_said_by_another_check():
    assert examine(two(rank(seed(-1, "a")), rank(seed(-1, "a")))) == ()


def test_epochs_that_begin_alike_bring_the_same_augmentation():
    one, other = (rank(seed(0, state), seed(0, state), batches=part) for state, part in (("a", EPOCH), ("b", OTHER)))
    (finding,) = examine(two(one, other))
    assert "Epochs 0, 1" in finding.sentence


def test_states_of_their_own_are_right():
    one = rank(seed(0, "a"), seed(1, "b"), seed(0, "c"), seed(1, "d"))
    other = rank(seed(0, "e"), seed(1, "f"), batches=OTHER)
    assert examine(two(one, other)) == ()


def test_a_fetch_that_nobody_looked_at_says_nothing():
    with pytest.raises(Abstain):
        examine(make_case(rank(make_seed(worker=-1, used={})), ranks=2))


def test_the_base_seed_of_the_workers_is_shown():
    one, other = (rank(seed(0, "a"), seed(1, "b"), batches=part, workers=2) for part in (EPOCH, OTHER))
    (finding,) = examine(two(one, other))
    assert "base seed 7" in finding.evidence[1]
