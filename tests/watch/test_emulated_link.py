"""An emulated link holds messages back and changes nothing else: not a number, not a count, not an error."""

import pytest

from scalewise.records.rows import EndRow, StartRow, StepRow, TroubleRow
from scalewise.records.spec import Change

STEPS = 8
LATENCY_SECONDS = 0.01
LINK = {"changes": (Change("emulate_link", {"seconds": LATENCY_SECONDS, "bytes_per_second": 1e9}),)}


def _of(ran, rank, kind):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def _applied(ran, rank=0):
    (end,) = _of(ran, rank, EndRow)
    return end.changes_applied["emulate_link"]


def test_ddp_computes_the_same_over_an_emulated_link_and_every_bucket_waits_for_it(runner) -> None:
    plain = runner.watched("ddp.py", ranks=2)
    held = runner.watched("ddp.py", ranks=2, **LINK)

    assert held.codes == (0, 0), held.stderr
    assert held.stdout == plain.stdout
    for rank in (0, 1):
        assert not _of(held, rank, TroubleRow)
        assert _applied(held, rank) == STEPS  # one bucket each
        rows = _of(held, rank, StepRow)
        assert [row.collectives for row in rows] == [row.collectives for row in _of(plain, rank, StepRow)]
        assert all(row.step_ns >= LATENCY_SECONDS * 1e9 for row in rows)


def test_three_ranks_divide_as_ddp_does_to_the_last_bit(runner) -> None:
    plain = runner.raw("ddp.py", ranks=3)
    held = runner.watched("ddp.py", ranks=3, **LINK)

    assert held.codes == (0, 0, 0), held.stderr
    assert held.stdout == plain.stdout


def test_only_micro_batches_that_synchronise_wait(runner) -> None:
    plain = runner.raw("ddp_accumulate.py", "no_sync", ranks=2)
    held = runner.watched("ddp_accumulate.py", "no_sync", ranks=2, **LINK)

    assert held.codes == (0, 0), held.stderr
    assert held.stdout == plain.stdout
    assert _applied(held) == 6


@pytest.mark.parametrize(("script", "messages"), [("manual_all_reduce.py", 6 * 4), ("fsdp.py", 1)])
def test_collectives_that_python_calls_wait_as_well(runner, script, messages) -> None:
    plain = runner.raw(script, ranks=2)
    held = runner.watched(script, ranks=2, **LINK)

    assert held.codes == (0, 0), held.stderr
    assert held.stdout == plain.stdout
    assert _applied(held) >= messages
    assert not _of(held, 0, TroubleRow)


def test_a_hook_of_the_scripts_own_keeps_its_place_and_its_collectives_wait(runner) -> None:
    plain = runner.raw("comm_hook.py", ranks=2)
    held = runner.watched("comm_hook.py", ranks=2, **LINK)

    assert held.codes == (0, 0), held.stderr
    assert held.stdout == plain.stdout
    assert _applied(held) > 0
    assert not _of(held, 0, TroubleRow)


def test_the_link_is_named_in_the_record_and_alone_there_is_nothing_to_wait_for(runner) -> None:
    held = runner.watched("ddp.py", ranks=1, **LINK)

    assert held.codes == (0,), held.stderr
    (start,) = _of(held, 0, StartRow)
    assert start.changes == ("emulated link of 10 ms, 1 GB/s",)
    (end,) = _of(held, 0, EndRow)
    assert end.changes_applied == {}
