"""Each change makes the one difference that it names, says how often, and leaves the rest of the script alone."""

import re

from watch_runner import change

from scalewise.records.rows import EndRow, StartRow, StepRow, TroubleRow

STEPS = 8


def _of(ran, rank, kind):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def _applied(ran, rank=0):
    (end,) = _of(ran, rank, EndRow)
    return end.changes_applied


def _weights(ran):
    return tuple(re.search(r"weights (\S+)", text)[1] for text in ran.stdout)


def test_without_communication_the_ranks_drift_apart_and_no_all_reduce_is_left(runner) -> None:
    together = runner.raw("ddp.py", ranks=2)
    apart = runner.watched("ddp.py", ranks=2, **change("remove_communication"))

    assert apart.codes == (0, 0), apart.stderr
    assert _weights(together)[0] == _weights(together)[1]
    assert _weights(apart)[0] != _weights(apart)[1]
    for rank in (0, 1):
        assert not _of(apart, rank, TroubleRow)
        assert _applied(apart, rank) == {"remove_communication": STEPS}
        assert len(_of(apart, rank, StepRow)) == STEPS
        assert all("all_reduce" not in row.collectives for row in _of(apart, rank, StepRow))


def test_communication_is_removed_from_every_micro_batch_that_would_have_synchronised(runner) -> None:
    apart = runner.watched("ddp_accumulate.py", "every", ranks=2, **change("remove_communication"))

    assert apart.codes == (0, 0), apart.stderr
    assert _applied(apart) == {"remove_communication": 6 * 4}
    assert all("all_reduce" not in row.collectives for row in _of(apart, 0, StepRow))
    assert all(row.micro_batches == 4 for row in _of(apart, 0, StepRow))


def test_gradients_that_a_script_reduces_by_hand_stay_apart_too(runner) -> None:
    apart = runner.watched("manual_all_reduce.py", ranks=2, **change("remove_communication"))

    assert apart.codes == (0, 0), apart.stderr
    assert _weights(apart)[0] != _weights(apart)[1]
    assert _applied(apart)["remove_communication"] > 0


def test_a_sleep_comes_before_every_backward_and_changes_no_number(runner) -> None:
    seconds = 0.004
    raw = runner.raw("ddp_accumulate.py", "no_sync", ranks=2)
    slept = runner.watched("ddp_accumulate.py", "no_sync", ranks=2, **change("sleep_before_backward", seconds))

    assert slept.codes == (0, 0), slept.stderr
    assert slept.stdout == raw.stdout
    for rank in (0, 1):
        assert _applied(slept, rank) == {"sleep_before_backward": 6 * 4}
        assert all(row.step_ns > 4 * seconds * 1e9 for row in _of(slept, rank, StepRow))


def test_only_the_named_rank_is_slow(runner) -> None:
    seconds = 0.02
    raw = runner.raw("ddp.py", ranks=2)
    slowed = runner.watched("ddp.py", ranks=2, **change("slow_rank", seconds, 1))

    assert slowed.codes == (0, 0), slowed.stderr
    assert slowed.stdout == raw.stdout
    assert _applied(slowed, 0) == {}
    assert _applied(slowed, 1) == {"slow_rank": STEPS}
    assert all(row.step_ns > seconds * 1e9 for row in _of(slowed, 1, StepRow))


def test_every_rank_names_the_changes_it_was_given(runner) -> None:
    slowed = runner.watched("plain.py", **change("slow_rank", 0.001, 0))

    (start,) = _of(slowed, 0, StartRow)
    assert any("slow" in text for text in start.changes)


def test_a_value_that_is_zero_but_for_rounding_lies_on_the_other_side_of_the_kink(runner) -> None:
    plain = runner.raw("kinks.py").stdout[0].splitlines()
    across = runner.watched("kinks.py", **change("across_kinks"))

    assert across.codes == (0,), across.stderr
    turned = across.stdout[0].splitlines()
    assert plain[0] == "module [1.0, 0.0, 1.0, 0.0]" and plain[3] == "leaky [1.0, 0.01, 1.0, 0.01]"
    assert turned[:5] == [
        "module [1.0, 0.0, 0.0, 0.0]",
        "in place [1.0, 0.0, 0.0, 0.0]",
        "function [1.0, 0.0, 0.0, 0.0]",
        "leaky [1.0, 0.01, 0.01, 0.01]",
        "method [1.0, 0.0, 0.0, 0.0]",
    ]
    assert turned[5:] == plain[5:]  # half precision, and what is not learnt from
    assert _applied(across) == {"across_kinks": 5}
