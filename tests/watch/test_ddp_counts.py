"""What DDP reduces is counted per reduction, not per forward pass: checked on a GAN, where the two differ."""

from scalewise.records.rows import StepRow, TroubleRow

JUDGE_BYTES, GENERATOR_BYTES = 4 * (32 + 1), 4 * (8 * 32 + 32)


def test_two_forwards_before_one_backward_are_one_reduction_and_a_detached_output_is_none(runner):
    raw, watched = runner.raw("gan_ddp.py", ranks=2), runner.watched("gan_ddp.py", ranks=2)

    assert watched.stdout == raw.stdout and watched.codes == (0, 0)
    rows = watched.rows().rows
    assert not [row for row in rows if isinstance(row, TroubleRow)]
    steps = [row for row in rows if isinstance(row, StepRow)]
    assert [row.optimizer for row in steps] == [0, 1] * 6
    for row in steps:
        both = (2, JUDGE_BYTES + GENERATOR_BYTES)
        assert row.collectives == {"all_reduce": (1, JUDGE_BYTES) if row.optimizer == 0 else both}
