"""Tests of the check for ranks that are fed the same batches."""

import pytest
from case_factory import Sheet, make_case, make_wrapper
from data_sheets import LINE, batches_of, feed, loader_of, replay, two
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.same_data import examine, settle

EPOCH = batches_of(list(range(24)))


def fed(batches, **loader):
    return feed(loader_of(Sheet(), **loader), batches)


def test_ranks_with_the_same_batches_do_the_same_work():
    (finding,) = examine(two(fed(EPOCH), fed(EPOCH)))
    assert (finding.severity, finding.proof, finding.ranks) == ("wrong", "observed", (0, 1))
    assert "6 of 6 batches" in finding.sentence
    assert finding.where.text == LINE
    assert finding.price.value == 0.5
    assert "DataLoader(dataset, batch_size=4, sampler=sampler)" in finding.fix
    assert finding.change.name == "shard_data"


def test_ranks_with_batches_of_their_own_are_right():
    other = batches_of(list(range(24, 48)))
    assert examine(two(fed(EPOCH), fed(other))) == ()


def test_one_other_batch_is_enough_to_be_silent():
    assert examine(two(fed(EPOCH), fed([*EPOCH[:-1], [99]]))) == ()


def test_two_of_three_ranks_may_share():
    (finding,) = examine(make_case(fed(EPOCH), fed(batches_of(list(range(40, 64)))), fed(EPOCH)))
    assert finding.ranks == (0, 2)


def test_one_tensor_in_every_step_is_a_benchmark():
    fixed = [[1, 2]] * 6
    (finding,) = examine(two(fed(fixed), fed(fixed)))
    assert finding.severity == "note" and not finding.counts and finding.change is None


def test_ranks_of_different_groups_are_not_compared():
    one, other = (fed(EPOCH).row(make_wrapper(ranks=(rank,))) for rank in range(2))
    with pytest.raises(Abstain, match="average"):
        examine(two(one, other))


def test_two_batches_are_too_few():
    with pytest.raises(Abstain, match="3 training inputs"):
        examine(two(fed(EPOCH[:2]), fed(EPOCH[:2])))


def test_a_generator_fed_with_the_same_noise_is_no_proof_when_the_pictures_differ():
    def rank(start):
        sheet = Sheet().row(make_wrapper(0)).row(make_wrapper(1))
        for number in range(6):
            sheet.forward(wrapper=0, digest=f"noise {number}").forward(wrapper=1, digest=f"picture {start + number}")
            sheet.backward().step()
        return sheet

    assert examine(two(rank(0), rank(50))) == ()


def test_a_loss_that_is_a_module_is_not_a_model():
    def rank(number):
        sheet = Sheet()
        for step in range(5):
            sheet.forward(digest=f"input {step}").forward(
                module="CrossEntropyLoss", wrapper=-1, digest=f"{number} {step}"
            )
            sheet.backward().step()
        return sheet

    (finding,) = examine(two(rank(0), rank(1)))
    assert finding.severity == "wrong" and finding.change is None
    assert "manual_seed(seed + dist.get_rank())" in finding.fix


def by_hand(before_backward):
    sheet = Sheet()
    for step in range(5):
        sheet.forward(wrapper=-1, digest=f"input {step}")
        if before_backward:
            sheet.collective(size_bytes=4000)
        sheet.backward()
        if not before_backward:
            sheet.collective(size_bytes=4000)
        sheet.step()
    return sheet


def test_gradients_that_are_averaged_by_hand_make_ranks_replicas():
    (finding,) = examine(make_case(by_hand(False), ranks=2, wrapped=False))
    assert "all_reduce of the gradients" in finding.evidence[1]


def test_tensor_parallel_ranks_must_see_the_same():
    with pytest.raises(Abstain):
        examine(make_case(by_hand(True), ranks=2, wrapped=False))


def test_a_replay_with_sharded_data_proves_it():
    plain = two(fed(EPOCH), fed(EPOCH))
    (finding,) = examine(plain)
    fixed = two(fed(EPOCH[:3]), fed(EPOCH[3:]))
    assert settle(plain, finding, replay("shard_data", plain, fixed)).proof == "replayed"
    assert settle(plain, finding, replay("shard_data", plain, plain)) == finding
    assert settle(plain, finding, replay("shard_data", plain, fixed, applied=0)) == finding
    assert settle(plain, finding, replay("shard_data", plain, fixed, trouble="it raised")) == finding


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=4))
def test_it_speaks_exactly_of_the_ranks_whose_inputs_are_equal(digests):
    sheets = []
    for inputs in digests:
        sheet = Sheet()
        for number, value in enumerate(inputs):
            sheet.window(forward={"digest": f"{number} {value}"})
        sheets.append(sheet)
    told = {finding.ranks for finding in examine(make_case(*sheets))}
    alike = {}
    for rank, inputs in enumerate(digests):
        alike.setdefault(tuple(inputs), []).append(rank)
    assert told == {tuple(ranks) for ranks in alike.values() if len(ranks) > 1}
