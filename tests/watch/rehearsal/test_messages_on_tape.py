"""The messages of a rehearsed rank are those of a real one: kinds, counts and bytes, and where it waits for them."""

from collections import Counter

import pytest
from rehearsal_runner import rehearse, steps, tapes

LAYER = (64 * 64 + 64) * 4
ALL = 3 * LAYER  # bytes of rehearsed.py's parameters
SETTLED = slice(3, None)  # DDP rebuilds its buckets after the first step
SHARD_SEEN = ("reduce_scatter",)  # the watcher counts what comes out, the tape what goes in


def _seen(row):
    """What the watcher counted, in bytes of the whole message among two ranks."""
    return {kind: (count, size * 2 if kind in SHARD_SEEN else size) for kind, (count, size) in row.collectives.items()}


def _taped(row):
    messages = (*row.messages, *row.outside)
    count, size = Counter(), Counter()
    for kind, size_bytes, _ in messages:
        count[kind] += 1
        size[kind] += size_bytes
    return {kind: (count[kind], size[kind]) for kind in count}


def _order(row):
    return [(what, number) for what, number, _ in row.marks if what in ("issue", "wait")]


LAWFUL = ("ddp", "accumulated", "fp16", "own_hook", "two_models", "fsdp2", "pipeline", "zero", "by_hand", "after")


@pytest.mark.parametrize("way", LAWFUL)
def test_two_ranks_really_send_what_the_tape_holds(runner, way) -> None:
    real = runner.watched("rehearsed.py", way, ranks=2)
    assert real.codes == (0, 0), real.stderr
    rehearsed = rehearse(runner, "rehearsed.py", way)
    measured = [_seen(row) for row in steps(real)][SETTLED]
    assert measured == [_taped(row) for row in tapes(rehearsed)][SETTLED]
    assert measured and all(measured)
    assert [row.collectives for row in steps(real)] == [row.collectives for row in steps(rehearsed)]


# The same in bytes; here the watcher does not see each message that DDP sends from C++.
@pytest.mark.parametrize(
    ("way", "messages"),
    [
        ("static", {"all_reduce": (2, ALL)}),
        ("unused", {"all_reduce": (3, ALL + 6 * 4)}),  # and which of six parameters were used
        ("normalised", {"broadcast": (2, 2 * 64 * 4 + 8), "all_reduce": (1, LAYER + 2 * 64 * 4)}),
        ("views", {"all_reduce": (2, ALL)}),
        ("plain_hook", {"all_reduce": (2, ALL)}),
        ("fsdp1", {"all_gather": (1, ALL), "reduce_scatter": (1, ALL)}),
        ("tensor_parallel", {"all_reduce": (1, 4 * 64 * 4)}),
        ("neighbours", {"batch_isend_irecv": (1, 400)}),
        ("joined", {"all_reduce": (4, ALL + 8)}),
        ("compiled", {"all_reduce": (1, ALL)}),
        ("lbfgs", {"all_reduce": (4, 2 * ALL)}),
        ("scaled", {"all_reduce": (2, ALL)}),
        ("groups", {"all_reduce": (2, ALL), "barrier": (1, 0)}),
    ],
)
def test_every_other_way_sends_what_can_be_worked_out_by_hand(runner, way, messages) -> None:
    taped = tapes(rehearse(runner, "rehearsed.py", way))
    assert [_taped(row) for row in taped[SETTLED]] == [messages, messages]


def test_the_reducer_waits_for_its_buckets_one_after_another_when_backward_is_over(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "ddp"))[-1]
    assert _order(row) == [("issue", 0), ("issue", 1), ("wait", 0), ("wait", 1)]
    names = [what for what, _, _ in row.marks]
    assert names.index("wait") < names.index("own") < names.index("optimizer") < names.index("end")
    times = [at for _, _, at in row.marks]
    assert times == sorted(times)


def test_a_hook_that_waits_in_its_callback_holds_up_nothing_before_the_end_of_backward(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "power_sgd"))[-1]
    count = len(row.messages)
    assert count > 2  # two factors, and what is not compressed
    assert _order(row) == [*(("issue", n) for n in range(count)), *(("wait", n) for n in range(count))]


def test_handles_are_waited_for_where_the_script_does(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "handles"))[-1]
    assert _order(row) == [*(("issue", n) for n in range(6)), *(("wait", n) for n in range(6))]


def test_a_call_that_blocks_is_waited_for_at_once(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "by_hand"))[-1]
    assert _order(row) == [(what, number) for number in range(6) for what in ("issue", "wait")]


def test_only_the_last_micro_batch_sends(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "accumulated"))[-1]
    names = [what for what, _, _ in row.marks]
    assert names.count("backward") == 3
    assert "issue" not in names[: len(names) - names[::-1].index("backward")]


def test_messages_after_the_optimizer_lie_outside_the_step(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "after"))[-1]
    assert row.outside == (("all_reduce", 8, 2),)
    assert row.marks[-1][0] == "end"


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_ranks_of_a_pipeline_differ(runner, rank) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", "pipeline", ranks=3, rank=rank))[-1]
    ways = [kind for kind, _, _ in (*row.outside, *row.messages)]  # what forward needs comes before the step
    assert ways == {0: ["send", "recv"], 1: ["recv", "send", "recv", "send"], 2: ["recv", "send"]}[rank]


@pytest.mark.parametrize(("way", "ranks"), [("ddp", 4096), ("fsdp2", 64), ("fsdp2", 4096)])
def test_thousands_of_ranks_are_rehearsed_by_one_process(runner, way, ranks) -> None:
    row = tapes(rehearse(runner, "rehearsed.py", way, ranks=ranks, rank=ranks - 1))[-1]
    assert {group for _, _, group in row.messages} == {ranks}
    padded = max(ranks, 64) // 64  # a shard holds at least one row of its matrix
    whole = {"ddp": ALL, "fsdp2": 3 * ALL * padded}[way]
    assert sum(size for _, size, _ in row.messages) == whole
