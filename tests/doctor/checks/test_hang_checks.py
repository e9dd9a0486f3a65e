"""Tests of the checks of hangs: who waited where, who was elsewhere, and who had left."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_failure, make_loader

from factories import make_outcome
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import collective_on_some_ranks, left_early, send_send
from scalewise.records.outcome import RankEnd

CHECKS = (collective_on_some_ranks, left_early, send_send)
CLOSED = "Connection closed by peer [127.0.0.1]:58002"


def end(rank, code=None, doing="in a collective", stack=()):
    return RankEnd(
        rank, code, None, 3.0, doing, (), tuple(f'File "{file}", line {line} in {name}' for file, line, name in stack)
    )


def case_of(*sheets, kind="hung", ends=None):
    outcome = replace(make_outcome(kind, "no rank moved"), ranks=tuple(ends or map(end, range(len(sheets)))))
    return make_case(*sheets, outcome=outcome)


def found(case):
    return {check.CHECK.name: check.examine(case) for check in CHECKS if check.examine(case)}


def backward_stack(line=2):
    return [("/x/torch/autograd/graph.py", 9, "_engine_run_backward"), ("/scripts/train.py", line, "main")]


def in_backward(steps):
    """A rank that stands in the backward pass of the step after these."""
    return Sheet().windows(steps, zero="before", batch=False).zero().forward()


def test_a_barrier_of_one_rank_is_found_with_the_line_of_the_other():
    first = Sheet().windows(3, zero="before", batch=False).collective("barrier", done=False)
    stood = end(1, doing="backward", stack=backward_stack(line=3))
    result = found(case_of(first, in_backward(3), ends=[end(0), stood]))
    (finding,) = result.pop("collective-on-some-ranks")
    assert not result and finding.proof == "observed"
    assert finding.where.text == "dist.barrier(tensor)" and finding.also[0].text == "loss.backward()"
    assert finding.sentence.startswith("Rank 0 enters barrier at train.py:5, while rank 1 was in the backward pass")
    assert "1 on rank 0, 0 on rank 1" in " ".join(finding.evidence)
    assert finding.fix.startswith("dist.barrier(tensor)  # on every rank")


def test_two_collectives_that_meet_by_mistake_are_found_though_the_run_crashed():
    first = (
        Sheet()
        .windows(2, zero="before", batch=False)
        .collective("all_reduce", done=False, line="dist.all_reduce(mean)")
    )
    second = in_backward(2)
    second.row(make_failure(message=CLOSED, place=second.place("loss.backward()")))
    (finding,) = found(case_of(first, second, kind="killed", ends=[end(0), end(1, 1, "ended")]))[
        "collective-on-some-ranks"
    ]
    assert finding.where.text == "dist.all_reduce(mean)" and finding.steps_seen == 2


def test_an_all_reduce_of_another_size_is_another_operation():
    first = Sheet().collective("all_reduce", size_bytes=4, done=False, line="dist.all_reduce(loss)")
    second = Sheet().collective("all_reduce", size_bytes=4096, done=False, line="dist.all_reduce(gradient)")
    assert "collective-on-some-ranks" in found(case_of(first, second))


def test_a_collective_after_the_others_have_left_in_order_is_found():
    first = Sheet().collective("all_reduce").collective("all_gather", done=False)
    second = Sheet().collective("all_reduce")
    result = found(case_of(first, second, kind="left_early", ends=[end(0, 1), end(1, 0, "ended")]))
    assert set(result) == {"collective-on-some-ranks"}
    assert "rank 1 had left" in result["collective-on-some-ranks"][0].sentence


def test_a_rank_that_leaves_its_loop_is_found():
    first = in_backward(5)
    first.row(make_failure(message=CLOSED, place=first.place("loss.backward()")))
    second = Sheet().windows(5, zero="before", batch=False)
    result = found(case_of(first, second, kind="left_early", ends=[end(0, 1, "ended"), end(1, 0, "ended")]))
    assert set(result) == {"left-early"}
    (finding,) = result["left-early"]
    assert finding.sentence.startswith("Rank 1 left after 5 steps while rank 0 waited in the backward pass")
    assert finding.ranks == (1,) and finding.where.text == "loss.backward()"


def test_a_rank_that_computes_is_only_suspected():
    first = Sheet().collective("barrier", done=False)
    second = Sheet().batch()
    stood = end(1, doing="starting", stack=[("/scripts/train.py", 7, "evaluate")])
    (finding,) = found(case_of(first, second, ends=[end(0), stood]))["collective-on-some-ranks"]
    assert finding.proof == "suspected" and "did not reach it at train.py:7" in finding.sentence


def test_an_exception_of_the_scripts_own_is_no_hang():
    first = in_backward(3)
    first.row(make_failure(message=CLOSED, place=first.place("loss.backward()")))
    second = Sheet().windows(3, zero="before", batch=False).row(make_failure("ValueError", "no luck"))
    ends = [end(0, 1, "ended"), end(1, 1, "ended")]
    assert not found(case_of(first, second, kind="raised", ends=ends))


def test_loaders_of_different_length_are_left_to_their_own_check():
    def rank(batches):
        sheet = Sheet().row(make_loader()).epoch()
        return sheet.windows(batches, zero="before")

    first, second = rank(6).batch().zero().forward(), rank(6).exhausted()
    first.row(make_failure(message=CLOSED, place=first.place("loss.backward()")))
    case = case_of(first, second, kind="left_early", ends=[end(0, 1, "ended"), end(1, 0, "ended")])
    assert not found(case)


@pytest.mark.parametrize("name", ["send", "recv"])
def test_two_ranks_that_wait_for_each_others_messages_are_found(name):
    sheets = [Sheet().collective(name, peer=1 - rank, done=False, line=f"dist.{name}(x, other)") for rank in range(2)]
    result = found(case_of(*sheets))
    assert set(result) == {"send-send"}
    (finding,) = result["send-send"]
    assert finding.ranks == (0, 1) and finding.where.text == f"dist.{name}(x, other)"


def test_a_message_that_was_only_begun_blocks_where_it_is_waited_for():
    sheets = [
        Sheet().collective("recv", peer=1 - rank, waits=False).collective("wait", done=False, line="request.wait()")
        for rank in range(2)
    ]
    (finding,) = found(case_of(*sheets))["send-send"]
    assert finding.where.text == "request.wait()" and "rank 0 receives from rank 1" in finding.sentence


def test_a_ring_of_three_is_found():
    sheets = [Sheet().collective("send", peer=(rank + 1) % 3, done=False) for rank in range(3)]
    (finding,) = found(case_of(*sheets))["send-send"]
    assert "rank 2 sends to rank 0" in finding.sentence


def test_a_chain_that_ends_in_a_rank_that_computes_is_no_ring():
    first, second = Sheet().collective("send", peer=1, done=False), Sheet().collective("send", peer=2, done=False)
    assert "send-send" not in found(case_of(first, second, Sheet().batch()))


def test_messages_that_arrived_are_no_ring():
    sheets = [Sheet().collective("send", peer=1 - rank) for rank in range(2)]
    assert not found(case_of(*sheets))


@pytest.mark.parametrize("kind", ["finished", "aborted_at_exit", "no_steps", "interrupted"])
def test_nothing_is_said_of_a_run_that_ended_in_order(kind):
    first = Sheet().windows(3).collective("barrier", done=False)
    assert not found(case_of(first, Sheet().windows(3), kind=kind))


def test_collectives_of_a_group_concern_its_members_only():
    first = Sheet().collective("all_reduce", ranks=[0]).collective("barrier", done=False)
    second = Sheet().collective("barrier", done=False)
    assert not found(case_of(first, second))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.CHECK.name)
def test_one_rank_and_an_unknown_end_are_not_judged(check):
    with pytest.raises(Abstain, match="one rank"):
        check.examine(case_of(Sheet().windows(2)))
    with pytest.raises(Abstain, match="not known"):
        check.examine(make_case(Sheet().windows(2), ranks=2, unfinished=True))


@pytest.mark.parametrize("kind", ["timed_out", "enough"])
def test_ranks_of_a_run_that_was_ended_from_outside_are_wherever_they_are(kind):
    first = Sheet().windows(3, zero="before", batch=False).collective("barrier", done=False)
    stood = end(1, doing="backward", stack=backward_stack(line=3))
    assert not found(case_of(first, in_backward(3), kind=kind, ends=[end(0), stood]))


def test_buffers_that_one_rank_broadcasts_alone_are_found():
    first = Sheet().windows(3, zero="before", batch=False).collective("buffers", done=False)
    gone = Sheet().windows(3, zero="before", batch=False)
    result = found(case_of(first, gone, kind="left_early", ends=[end(0), end(1, code=0)]))
    (finding,) = result.pop("collective-on-some-ranks")
    assert not result
    assert "broadcast of buffers before a forward pass" in finding.sentence
    assert "model.module" in finding.fix and "rank 0 evaluates alone" in finding.fix
