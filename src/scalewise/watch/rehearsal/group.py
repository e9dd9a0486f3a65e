"""Puts the group that stands for all ranks in place of every group that the script asks for.

Of objects that another rank would have sent, the script keeps its own, and the prediction says so.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from scalewise.records.collectives import DISTRIBUTED, CollectiveFunction, functions_in
from scalewise.records.rehearsal import UnrehearsedRow
from scalewise.watch.call_arguments import Argument
from scalewise.watch.crash import for_the_script
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.fake_group import MessageSink, StageGroup
from scalewise.watch.seams import seams

NAME = "rehearsed"
STAYS = "the list stays as it was"
_OBJECTS = ("one_rank", "every_rank", "sender")
_OBJECT_CALLS = {one.name: one for one in functions_in(DISTRIBUTED) if one.objects in _OBJECTS}
_KNOWN = ("undefined", "gloo", "nccl", "cpu:gloo", "cuda:nccl", "xccl", "fake")


def install(recorder: Recorder, stage: MessageSink, world_size: int, rank: int) -> None:
    """Makes every group of the size asked for, and tells the script the backend that it asked for."""
    dist.Backend.register_backend(
        NAME, lambda store, group_rank, size, timeout: StageGroup(stage, group_rank, size), devices=["cpu", "cuda"]
    )
    names = ("init_process_group", "new_group", "split_group", "batch_isend_irecv")
    joined = seams(dist, (*names, *_OBJECT_CALLS), within="torch.distributed")
    joined["init_process_group"].replace(_init(recorder, joined["init_process_group"].original, world_size, rank))
    joined["new_group"].around(_new_group())
    if "split_group" in joined:
        joined["split_group"].replace(_split_group)
    joined["batch_isend_irecv"].around(_batch(stage))
    for name in set(_OBJECT_CALLS) & set(joined):
        joined[name].around(_object_call(recorder, rank, _OBJECT_CALLS[name]))


def _init(recorder: Recorder, init: Any, world_size: int, rank: int) -> Any:
    backend, ranks_asked, rank_asked = (Argument(init, name) for name in ("backend", "world_size", "rank"))

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        _compare(recorder, "ranks", ranks_asked.of(args, kwargs), world_size)
        _compare(recorder, "rank", rank_asked.of(args, kwargs), rank)
        asked = str(backend.of(args, kwargs) or "undefined").lower()
        _refuse_unknown(asked)
        for part in asked.split(","):
            if part not in _KNOWN:
                note(recorder, f"the backend {part}", "its messages take as long as those of gloo or NCCL would")
        init(NAME, rank=rank, world_size=world_size, store=HashStore())
        _call_it(dist.group.WORLD, asked)

    return init_process_group


def _refuse_unknown(asked: str) -> None:
    """Refuses a backend as torch does, in its words: the group that replaces it would take any name."""
    known = {*dist.Backend.backend_list} - {NAME}  # plugins are in the list once they are registered
    for part in asked.split(","):
        device, _, name = part.rpartition(":")
        if name not in known:
            said = f"Unknown c10d backend type {name.upper()}" if device else f"Unknown backend type {name}"
            raise for_the_script(AssertionError(said))


def _compare(recorder: Recorder, what: str, asked: Any, given: int) -> None:
    """Notes a difference: a script that is told its rank by torchrun asks for what it is given."""
    if isinstance(asked, int) and asked not in (-1, given):
        note(recorder, f"a group with {what} = {asked}, as the script says", f"it has {what} = {given}")


def _new_group() -> Any:
    ranks, backend, group_desc = (Argument(dist.new_group, name) for name in ("ranks", "backend", "group_desc"))

    def new_group(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        group = call(ranks.of(args, kwargs), backend=NAME, group_desc=group_desc.of(args, kwargs))
        if isinstance(group, dist.ProcessGroup):
            asked = str(backend.of(args, kwargs) or dist.get_backend()).lower()
            _refuse_unknown(asked)
            _call_it(group, asked)
        return group

    return new_group


def _split_group(parent_pg: Any = None, split_ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
    parent = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
    mine = [ranks for ranks in split_ranks or () if parent.index(dist.get_rank()) in ranks]
    return dist.new_group([parent[number] for number in mine[0]]) if mine else None


def _batch(stage: MessageSink) -> Any:
    def batch_isend_irecv(call: Any, p2p_op_list: Any) -> Any:
        group = p2p_op_list[0].group if p2p_op_list else None
        with stage.together("batch_isend_irecv", dist.get_world_size(group)):
            return call(p2p_op_list)

    return batch_isend_irecv


def _call_it(group: Any, backend: str) -> None:
    """Sets what `get_backend` answers, in a table private to torch; without it, the group's own name is given."""
    names = getattr(getattr(dist.distributed_c10d, "_world", None), "pg_map", {})
    if group in names:
        names[group] = (backend, *names[group][1:])


def note(recorder: Recorder, what: str, instead: str, objects: Literal["", "own", "missing"] = "") -> None:
    """Writes a row for the prediction, once for each kind of difference."""
    said = recorder.__dict__.setdefault("_unrehearsed", set())
    if what not in said:
        said.add(what)
        recorder.journal.row(UnrehearsedRow(what, instead, objects))
        recorder.journal.flush()  # the difference may be why the script ends before its first step


# ---- objects


def _object_call(recorder: Recorder, rank: int, function: CollectiveFunction) -> Any:
    """Makes what lies around a function that sends objects; those of this rank or of all ranks go the ordinary way."""
    name = function.name
    source = _source(getattr(dist, name))

    def gathered(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        note(recorder, f"objects gathered from all ranks ({name})", "this rank's own stands for every rank's", "own")
        return call(*args, **kwargs)

    def kept(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if source(args, kwargs) == rank:
            return call(*args, **kwargs)
        how = {"broadcast": "broadcast", "scatter": "scattered"}.get(function.kind, "sent")
        note(recorder, f"objects {how} by another rank ({name})", STAYS, "missing")
        return None

    def received(call: Any, /, *args: Any, **kwargs: Any) -> int:
        note(recorder, f"objects received from another rank ({name})", STAYS, "missing")
        return source(args, kwargs)

    return {"one_rank": kept, "every_rank": gathered, "sender": received}[str(function.objects)]


def _source(original: Any) -> Callable[[Any, Any], int]:
    """A function that finds a call's source as a rank of the whole run; 0 if none is given."""
    src, group_src, group = (Argument(original, name) for name in ("src", "group_src", "group"))

    def source(args: Any, kwargs: Any) -> int:
        in_group = group_src.of(args, kwargs)
        if in_group is not None:
            asked: Any = group.of(args, kwargs) or dist.group.WORLD
            return int(dist.get_global_rank(asked, in_group))
        return int(src.of(args, kwargs) or 0)

    return source
