"""A loop so fast that it is watched only now and then: nothing changes for the script, and what is kept is true."""

from scalewise.records.rows import EndRow, StepRow, TroubleRow
from scalewise.watch.look_intervals import FIRST_STEPS, REST_STEPS


def test_a_fast_loop_computes_the_same_and_its_watched_steps_are_whole(runner):
    raw, watched = runner.raw("fast.py"), runner.watched("fast.py")

    assert watched.codes == raw.codes == (0,)
    assert watched.stdout == raw.stdout
    rows = watched.rows().rows
    steps = [row for row in rows if isinstance(row, StepRow)]
    numbers = [row.step for row in steps]
    assert numbers[: FIRST_STEPS + 1] == list(range(FIRST_STEPS + 1))
    assert not [row for row in rows if isinstance(row, TroubleRow)]
    (end,) = (row for row in rows if isinstance(row, EndRow))
    assert end.steps == 400
    for row in steps:
        assert (row.samples, row.micro_batches) == (4, 1) and row.loss is not None
        parts = (row.forward_ns, row.backward_ns, row.optimizer_ns, row.rest_ns, row.data_inside_ns)
        assert sum(parts) == row.step_ns and row.forward_ns > 0


def test_a_second_model_in_a_fast_loop_is_seen_again_in_full(runner):
    steps = [row for row in runner.watched("fast.py").rows().rows if isinstance(row, StepRow)]
    second = [row for row in steps if row.step > 300 + REST_STEPS]

    assert {row.optimizer for row in steps} == {0, 1}
    assert second and all(row.forward_ns > 0 for row in second)
