"""Puts the group that stands for all ranks in place of every group that the script asks for."""

import functools
import sys
from typing import Any, Literal

import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from scalewise.records.rehearsal import UnrehearsedRow
from scalewise.watch.call_arguments import Argument
from scalewise.watch.crash import for_the_script
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.fake_group import MessageSink, StageGroup

NAME = "rehearsed"
_KNOWN = ("undefined", "gloo", "nccl", "cpu:gloo", "cuda:nccl", "xccl", "fake")


def install(recorder: Recorder, stage: MessageSink, world_size: int, rank: int) -> None:
    """Makes every group of the size asked for, and tells the script the backend that it asked for."""
    dist.Backend.register_backend(
        NAME, lambda store, group_rank, size, timeout: StageGroup(stage, group_rank, size), devices=["cpu", "cuda"]
    )
    _replace_init(recorder, world_size, rank)
    new_group = _replace_new_group()
    _replace_split_group(new_group)
    _replace_batch(stage)


def _replace_init(recorder: Recorder, world_size: int, rank: int) -> None:
    init = dist.init_process_group
    backend, ranks_asked, rank_asked = (Argument(init, name) for name in ("backend", "world_size", "rank"))

    @functools.wraps(init)
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

    bind("init_process_group", init_process_group)


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


def _replace_new_group() -> Any:
    original = dist.new_group
    ranks, backend, group_desc = (Argument(original, name) for name in ("ranks", "backend", "group_desc"))

    @functools.wraps(original)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        group = original(ranks.of(args, kwargs), backend=NAME, group_desc=group_desc.of(args, kwargs))
        if isinstance(group, dist.ProcessGroup):
            asked = str(backend.of(args, kwargs) or dist.get_backend()).lower()
            _refuse_unknown(asked)
            _call_it(group, asked)
        return group

    bind("new_group", new_group)
    return new_group


def _replace_split_group(new_group: Any) -> None:
    if not hasattr(dist, "split_group"):
        return
    original = dist.split_group

    @functools.wraps(original)
    def split_group(parent_pg: Any = None, split_ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        parent = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
        mine = [ranks for ranks in split_ranks or () if parent.index(dist.get_rank()) in ranks]
        return new_group([parent[number] for number in mine[0]]) if mine else None

    bind("split_group", split_group)


def _replace_batch(stage: MessageSink) -> None:
    original = dist.batch_isend_irecv

    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        group = p2p_op_list[0].group if p2p_op_list else None
        with stage.together("batch_isend_irecv", dist.get_world_size(group)):
            return original(p2p_op_list)

    bind("batch_isend_irecv", batch_isend_irecv)


def _call_it(group: Any, backend: str) -> None:
    """Sets what `get_backend` answers, in a table private to torch; without it, the group's own name is given."""
    names = getattr(getattr(dist.distributed_c10d, "_world", None), "pg_map", {})
    if group in names:
        names[group] = (backend, *names[group][1:])


def bind(name: str, function: Any) -> None:
    """Replaces a function wherever torch.distributed's own modules have bound the original."""
    original = getattr(dist, name)
    for module_name, module in list(sys.modules.items()):
        ours = module_name.startswith("torch.distributed") and module is not None
        if ours and vars(module).get(name) is original:
            vars(module)[name] = function
    setattr(dist, name, function)


def note(recorder: Recorder, what: str, instead: str, objects: Literal["", "own", "missing"] = "") -> None:
    """Writes a row for the prediction, once for each kind of difference."""
    said = recorder.__dict__.setdefault("_unrehearsed", set())
    if what not in said:
        said.add(what)
        recorder.journal.row(UnrehearsedRow(what, instead, objects))
        recorder.journal.flush()  # the difference may be why the script ends before its first step
