"""Tests of what a run's spec says about itself: its kind, and which runs are the same."""

import json
from dataclasses import fields, replace

import pytest

from factories import make_outcome, make_spec
from scalewise.records.codec import BadRecord, decode, encode
from scalewise.records.outcome import Outcome
from scalewise.records.spec import (
    ARM,
    IDENTITY,
    NOT_IDENTITY,
    Change,
    Examined,
    Inspected,
    Nodes,
    Rehearsed,
    RunSpec,
    Timed,
)

KINDS = [
    Timed(),
    Inspected(),
    Examined(),
    Examined(show_gradients=True),
    Examined(inspected=True),
    Rehearsed(8, 6, 4),
    Rehearsed(8, 0, 8, inspected=True),
]
OLD_KIND = {"inspect": False, "examine": False, "show_gradients": False, "rehearse": None}
REHEARSAL = {"world_size": 8, "rank": 6, "ranks_per_node": 4}


def old(**kind):
    """A spec as schema 1 writes it."""
    data = encode(make_spec()) | OLD_KIND | kind | {"schema": 1}
    del data["kind"]
    return json.loads(json.dumps(data))


def test_changes_have_names_for_tables():
    assert Change("remove_communication").label() == "remove communication"
    assert (
        Change("emulate_link", {"seconds": 2e-4, "bytes_per_second": 1.5e9}).label()
        == "emulated link of 0.2 ms, 1.5 GB/s"
    )
    assert Change("sleep_before_backward", {"seconds": 0.01}).label() == "sleep before backward 10 ms"
    assert Change("slow_rank", {"seconds": 0.0205, "rank": 0}).label() == "slow rank 20.5 ms on rank 0"


def test_the_world_counts_ranks_over_all_nodes():
    assert make_spec(ranks=2).world_size == 2
    assert make_spec(ranks=2, nodes=Nodes(3, 0, "127.0.0.1", 29500)).world_size == 6


def test_only_runs_whose_training_was_over_are_measurements():
    kinds = Outcome.__annotations__["kind"].__args__
    measured = {kind for kind in kinds if make_outcome(kind).measured}
    assert measured == {"finished", "aborted_at_exit", "enough"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_read_back_as_it_was_written(kind):
    spec = make_spec(kind=kind)
    assert decode(RunSpec, json.loads(json.dumps(encode(spec)))) == spec


def test_a_kind_says_which_rows_there_are_and_whether_its_times_count():
    told = [(one.timed, one.inspected, bool(one.examined), bool(one.rehearsed)) for one in map(of_kind, KINDS)]
    assert told == [
        (True, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
        (False, False, True, False),
        (False, True, True, False),
        (False, False, False, True),
        (False, True, False, True),
    ]


def of_kind(kind) -> RunSpec:
    return make_spec(kind=kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({}, Timed()),
        ({"inspect": True}, Inspected()),
        ({"examine": True}, Examined()),
        ({"examine": True, "show_gradients": True}, Examined(show_gradients=True)),
        ({"examine": True, "inspect": True}, Examined(inspected=True)),
        ({"rehearse": REHEARSAL}, Rehearsed(8, 6, 4)),
        ({"rehearse": REHEARSAL, "inspect": True}, Rehearsed(8, 6, 4, inspected=True)),
    ],
)
def test_a_spec_of_schema_1_is_read(kind, expected):
    assert decode(RunSpec, old(**kind)) == make_spec(kind=expected)


def test_damage_in_a_kind_is_named():
    for data, where in ((old(rehearse="x"), "kind"), (old(rehearse={**REHEARSAL, "rank": "six"}), "kind.rank")):
        with pytest.raises(BadRecord, match=rf"RunSpec\.{where}: expected"):
            decode(RunSpec, data)


def test_every_field_is_part_of_the_identity_or_named_as_not():
    names = {field.name for field in fields(RunSpec)}
    assert names - {*IDENTITY, *NOT_IDENTITY} == set()
    assert set(IDENTITY) & set(NOT_IDENTITY) == set()
    assert set(NOT_IDENTITY) <= names and all(NOT_IDENTITY.values())
    assert all(hasattr(RunSpec, name) or name in names for name in {*IDENTITY, *ARM})


@pytest.mark.parametrize("kind", KINDS[1:])
def test_runs_of_two_kinds_are_not_the_same_run(kind):
    assert make_spec(kind=kind).key(IDENTITY) != make_spec().key(IDENTITY)


def test_a_limit_makes_no_other_run_and_a_variable_does():
    spec = make_spec(env={"A": "1", "B": "2"}, axes={"a": 1, "b": True})
    same = replace(spec, limit_seconds=1.0, env={"B": "2", "A": "1"}, axes={"b": True, "a": 1}, repeat=3)
    assert same.key(IDENTITY) == spec.key(IDENTITY) and same.key(ARM) == spec.key(ARM)
    assert hash(spec.key(IDENTITY)) == hash(same.key(IDENTITY))
    assert replace(spec, env={"A": "1"}).key(IDENTITY) != spec.key(IDENTITY)
    assert replace(spec, axes={"a": 2, "b": True}).key(ARM) != spec.key(ARM)
