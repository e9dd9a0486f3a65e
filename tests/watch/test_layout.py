"""What a rank says of how its parameters lie over the ranks, and of what DTensor sends, in real runs."""

from scalewise.records.rows import ModelRow, ParametersRow, StepRow, TroubleRow
from scalewise.records.spec import Rehearsed

OUTPUT_BYTES = 10 * 4 * 4  # of the second layer: what a row-wise layer sums over the ranks


def rows_of(ran, kind, rank=0):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def test_tensor_parallel_ranks_say_who_shares_their_parameters(runner):
    raw, watched = runner.raw("tensor_parallel.py", ranks=2), runner.watched("tensor_parallel.py", ranks=2)

    assert watched.stdout == raw.stdout and watched.codes == (0, 0)
    assert not rows_of(watched, TroubleRow)
    for rank in range(2):
        (model,) = rows_of(watched, ModelRow, rank)
        assert (model.split_over, model.averaged_over, model.wrapper) == ((0, 1), (), "")
        assert "Shard(dim=0)" in model.placements


def test_what_dtensor_sends_in_forward_is_seen(runner):
    watched = runner.watched("tensor_parallel.py", ranks=2)

    steps = rows_of(watched, StepRow)
    assert len(steps) == 6
    assert all(row.collectives["all_reduce"] == (1, OUTPUT_BYTES) for row in steps)
    assert all(step.forward == OUTPUT_BYTES for step in watched.rows().traffic.steps)


def test_fsdp_is_told_from_tensor_parallelism(runner):
    watched = runner.watched("fsdp.py", ranks=2)

    (model,) = rows_of(watched, ModelRow)
    assert (model.wrapper, model.averaged_over, model.split_over) == ("FSDP", (0, 1), ())


def test_the_parameters_are_summed_when_the_script_has_ended(runner):
    reduced = runner.watched("manual_all_reduce.py", ranks=2)
    ends = [rows_of(reduced, ParametersRow, rank) for rank in range(2)]
    assert ends[0] and ends[0] == ends[1], "ranks that average their gradients agree"

    assert not rows_of(runner.watched("plain.py"), ParametersRow), "one rank has nobody to agree with"


def test_a_rehearsed_rank_says_the_same_as_a_real_one(runner):
    watched = runner.watched("tensor_parallel.py", ranks=1, kind=Rehearsed(2, 0, 2))

    assert watched.codes == (0,), watched.stderr
    (model,) = rows_of(watched, ModelRow)
    assert model.split_over == (0, 1)
    assert all(step.forward == OUTPUT_BYTES for step in watched.rows().traffic.steps)
