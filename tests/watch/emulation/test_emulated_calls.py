"""Real ranks get the same over an emulated link, whatever they send, and every message is held back."""

from pathlib import Path

from scalewise.records.rows import EndRow, TroubleRow
from scalewise.records.spec import Change

SCRIPT = str(Path(__file__).parent / "real_calls.py")
LINK = {"changes": (Change("emulate_link", {"seconds": 0.001, "bytes_per_second": 1e9}),)}
PLAIN, BARRIER = 4, 1
OBJECTS = 2 + 2 + 3  # a size and what is of that size; where pieces differ in size, how long the longest is as well
DDP = 3 * (2 + 1)  # buffers of two dtypes and a bucket in each of three steps


def test_lists_objects_both_ways_and_buffers_arrive_as_they_do_without_a_link(runner):
    raw = runner.raw(SCRIPT, ranks=2)
    held = runner.watched(SCRIPT, ranks=2, **LINK)

    assert held.codes == (0, 0), held.stderr
    assert held.stdout == raw.stdout
    for rank in (0, 1):
        rows = held.rows(rank).rows
        assert not [row.error for row in rows if isinstance(row, TroubleRow)]
        (end,) = [row for row in rows if isinstance(row, EndRow)]
        assert end.changes_applied["emulate_link"] == PLAIN + OBJECTS + DDP + BARRIER
