"""The table of collectives has all that torch has, and one entry is all that a new one needs."""

import importlib
import inspect
import re
from dataclasses import replace

import pytest
from events_read import traffic_of

from scalewise.predict import collective_times
from scalewise.predict.link import Link, Wire
from scalewise.records import collectives as table
from scalewise.records.collectives import (
    COLLECTIVES,
    DISTRIBUTED,
    FUNCTIONAL,
    KINDS,
    LEFT_OUT,
    CollectiveFunction,
    CollectiveKind,
    collective_kind,
    kinds_carrying,
)

LINK = Link("exact", Wire(1.0, 0.1, 1.0, 0.01))
# Public functions of the two modules that exchange nothing between ranks by themselves, or only to make a group.
NO_EXCHANGE = re.compile(
    r"(get|is|has|new|set|supports|register|init|destroy|split|shrink|record|allow)_.*|rendezvous|GroupName"
    r"|.*_(backward|setup_context)"  # of autograd: they call functions of the list
)


@pytest.mark.parametrize("module", [DISTRIBUTED, FUNCTIONAL])
def test_every_public_function_of_torch_is_in_the_table_or_left_out_for_a_reason(module: str) -> None:
    there = importlib.import_module(module)
    own = {
        f"{module}.{name}"
        for name, one in vars(there).items()
        if not name.startswith("_")
        and callable(one)
        and not inspect.isclass(one)
        and not NO_EXCHANGE.fullmatch(name)
        and str(getattr(one, "__module__", "")).startswith("torch.distributed")
        and (module == DISTRIBUTED or one.__module__ == module)
    }
    assert len(own) > 15
    assert own - {one.path for one in COLLECTIVES} - set(LEFT_OUT) == set()


def test_nothing_stands_twice_and_what_is_left_out_is_not_in_the_table() -> None:
    paths = [one.path for one in COLLECTIVES]
    assert len(paths) == len(set(paths))
    assert set(paths) & set(LEFT_OUT) == set()
    assert {one.kind for one in COLLECTIVES} == set(KINDS)


def test_a_function_that_sends_by_itself_says_which_argument_it_sends() -> None:
    for one in COLLECTIVES:
        if one.module == DISTRIBUTED:
            assert bool(one.argument) == (one.payload not in ("signal", "objects")), one
            assert (one.objects is not None) == (one.payload == "objects"), one


def test_what_a_kind_does_is_what_every_room_was_told_before_there_was_a_table() -> None:
    assert kinds_carrying("gradients") == {"all_reduce", "reduce_scatter", "reduce"}
    assert kinds_carrying("shards") == {"all_gather", "reduce_scatter"}
    assert kinds_carrying("activations") == {"send", "recv", "batch_isend_irecv", "all_to_all"}
    assert {name for name, one in KINDS.items() if one.message} == {"send", "recv", "batch_isend_irecv"}
    assert {name for name, one in KINDS.items() if not one.unites} == {"send", "recv", "batch_isend_irecv", "barrier"}
    assert {name for name, one in KINDS.items() if one.parts} == {"all_to_all", "scatter"}
    assert {name for name, one in KINDS.items() if one.same_size} == {"all_reduce", "broadcast", "reduce"}


def test_a_new_kind_is_timed_and_read_by_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    new = CollectiveKind("shift", "each_to_each", gloo="to_a_neighbour", parts=True)
    monkeypatch.setitem(table.KINDS, new.name, new)

    assert collective_times.seconds(LINK, "shift", 8.0, 4) == collective_times.seconds(LINK, "all_to_all", 8.0, 4)
    over_gloo = replace(LINK, carrier="gloo")
    assert collective_times.seconds(over_gloo, "shift", 8.0, 4) == collective_times.seconds(LINK, "send", 8.0, 4)


def test_a_kind_of_another_version_does_nothing_that_is_known() -> None:
    unknown = collective_kind("all_shuffle")
    assert not (unknown.unites or unknown.message or unknown.parts or unknown.carries)


def test_a_function_has_a_path() -> None:
    assert CollectiveFunction("send", "send").path == "torch.distributed.send"
    assert traffic_of([]).count == 0
