"""A rank that is rehearsed gets numbers it can go on with, and what it would have needed of others is told."""

import pytest
from rehearsal_runner import of, rehearse, tapes

from scalewise.records.inspection import MemoryPartsRow
from scalewise.records.rehearsal import SteeredRow, UnrehearsedRow
from scalewise.records.spec import Inspected, Rehearsed


def odd(runner, way, ranks=4, rank=0, **changes):
    return rehearse(runner, "rehearsed_odd.py", way, ranks=ranks, rank=rank, **changes)


def test_a_look_at_what_was_made_of_a_result_is_told_once_for_each_line(runner) -> None:
    ran = odd(runner, "looks")
    told = [(row.call, row.collective, row.text) for row in of(ran, SteeredRow)]
    assert told == [
        ("float", "all_reduce", 'print("mean", float(mean))'),
        ("bool", "all_reduce", "return bool(mean > 100)"),
    ]
    assert set(ran.stdout[0].split("\n")) == {"mean 3.0", ""}  # as if all ranks had sent the same


def test_own_numbers_may_be_looked_at(runner) -> None:
    assert of(odd(runner, "minds_itself"), SteeredRow) == []


GATHERED = "gathered from all ranks (all_gather_object)"
BROADCAST = "broadcast by another rank (broadcast_object_list)"
SCATTERED = "scattered by another rank (scatter_object_list)"
RECEIVED = "received from another rank (recv_object_list)"


@pytest.mark.parametrize(
    ("rank", "printed", "told"),
    [
        (0, "['from 0'] [0] [None]", [GATHERED, RECEIVED]),
        (2, "['from 2'] [None] [None]", [GATHERED, BROADCAST, SCATTERED, RECEIVED]),
    ],
)
def test_objects_of_other_ranks_are_told_of_by_name(runner, rank, printed, told) -> None:
    ran = odd(runner, "objects", rank=rank)
    assert printed in ran.stdout[0]
    assert [row.what for row in of(ran, UnrehearsedRow)] == [f"objects {how}" for how in told]
    assert of(ran, SteeredRow) == []


@pytest.mark.parametrize(("ranks", "rank"), [(4, 0), (4096, 4095)])
def test_every_collective_gives_numbers_that_somebody_wrote(runner, ranks, rank) -> None:
    ran = odd(runner, "all_kinds", ranks=ranks, rank=rank)
    piece = [1.0, 1.0] if rank == 0 else [0.0, 0.0]
    shape = f"torch.Size([{2 * ranks}])"
    line = f"{ranks} [3.0, 3.0] {shape} {piece} 5 [0.0, 0.0, 0.0] {(rank + 1) % ranks}"
    assert set(ran.stdout[0].strip().split("\n")) == {line}
    sizes = {kind: size for kind, size, _ in tapes(ran)[-1].outside}
    assert sizes["all_gather"] == sizes["reduce_scatter"] == sizes["gather"] == sizes["scatter"] == 8 * ranks


def test_meshes_and_groups_have_the_size_and_the_backend_that_was_asked_for(runner) -> None:
    assert "8 4 gloo nccl 2\n" in odd(runner, "meshes", ranks=8).stdout[0]


def test_a_group_of_some_ranks_knows_over_how_many_nodes_it_lies(runner) -> None:
    row = tapes(rehearse(runner, "rehearsed_groups.py", ranks=8))[-1]
    lies = {(group, nodes) for (_, _, group), nodes in zip(row.messages, row.nodes, strict=True)}
    assert lies == {(2, 1), (4, 4), (8, 0)}  # inside a node, one rank in each of four, all ranks


@pytest.mark.parametrize("rank", [0, 3])
def test_a_script_knows_its_rank(runner, rank) -> None:
    ran = odd(runner, "first_only", rank=rank)
    assert f"rank {rank} of 4\n" in ran.stdout[0]
    assert of(ran, UnrehearsedRow) == []


def test_a_backend_that_is_not_modelled_is_told_of(runner) -> None:
    assert [row.what for row in of(odd(runner, "mpi"), UnrehearsedRow)] == ["the backend mpi"]


def test_a_backend_may_be_left_to_torch(runner) -> None:
    assert of(odd(runner, "unnamed"), UnrehearsedRow) == []


def test_a_script_that_says_itself_how_many_ranks_there_are_is_told_of(runner) -> None:
    ran = odd(runner, "explicit")
    assert [row.instead for row in of(ran, UnrehearsedRow)] == ["it has ranks = 4", "it has rank = 0"]
    assert "rank 0 of 4\n" in ran.stdout[0]


def test_a_script_without_a_group_sends_nothing(runner) -> None:
    rows = tapes(rehearse(runner, "plain.py"))
    assert rows
    assert not any(row.messages or row.outside for row in rows)


@pytest.mark.parametrize("way", ["ddp", "views"])
def test_a_rehearsed_rank_holds_what_a_real_one_does(runner, way) -> None:
    real = runner.watched("rehearsed.py", way, ranks=2, kind=Inspected())
    rehearsed = rehearse(runner, "rehearsed.py", way, kind=Rehearsed(2, 0, 8, inspected=True))
    assert of(real, MemoryPartsRow)
    assert of(rehearsed, MemoryPartsRow) == of(real, MemoryPartsRow)


def test_a_rehearsed_shard_is_as_large_as_a_real_one(runner) -> None:
    real = runner.watched("rehearsed.py", "fsdp2_memory", ranks=2)
    two, sixteen = (rehearse(runner, "rehearsed.py", "fsdp2_memory", ranks=ranks) for ranks in (2, 16))
    assert int(two.stdout[0]) == pytest.approx(int(real.stdout[0]), rel=0.03)
    assert int(sixteen.stdout[0]) < 0.6 * int(two.stdout[0])
