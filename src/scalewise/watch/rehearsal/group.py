"""Puts torch's `fake` process group in the place of the one that the script asks for."""

import functools
import sys
from typing import Any

import torch.distributed as dist

from scalewise.records.rehearsal import UnrehearsedRow
from scalewise.watch.recorder import Recorder

FAKE = "fake"


def install(recorder: Recorder, world_size: int, rank: int) -> None:
    """Every group is a fake one of the size asked for; the script is told the backend that it asked for."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    asked: dict[str, str] = {}
    init, new_group, get_backend = dist.init_process_group, dist.new_group, dist.get_backend

    @functools.wraps(init)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        asked["backend"] = str(backend or "gloo")
        return init(FAKE, rank=rank, world_size=world_size, store=FakeStore())

    @functools.wraps(new_group)
    def new_fake_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kept = {name: value for name, value in kwargs.items() if name in ("group_desc",)}
        return new_group(ranks, backend=FAKE, **kept)

    @functools.wraps(get_backend)
    def get_asked_backend(group: Any = None) -> Any:
        backend = get_backend(group)
        return asked.get("backend", backend).split(":")[-1] if backend == FAKE else backend

    @functools.wraps(dist.monitored_barrier)
    def monitored_barrier(*args: Any, **kwargs: Any) -> None:
        dist.barrier()

    broadcast_objects = dist.broadcast_object_list

    @functools.wraps(broadcast_objects)
    def broadcast_object_list(object_list: Any, src: Any = None, *args: Any, **kwargs: Any) -> Any:
        if (src or kwargs.get("group_src") or 0) != rank:
            note(recorder, "objects broadcast by another rank", "the list stays as it was")
            return None
        return broadcast_objects(object_list, src, *args, **kwargs)

    bind("init_process_group", init_process_group)
    bind("new_group", new_fake_group)
    bind("get_backend", get_asked_backend)
    bind("monitored_barrier", monitored_barrier)
    bind("broadcast_object_list", broadcast_object_list)


def bind(name: str, function: Any) -> None:
    """Wherever torch.distributed's own modules have bound the original."""
    original = getattr(dist, name)
    for module_name, module in list(sys.modules.items()):
        ours = module_name.startswith("torch.distributed") and module is not None
        if ours and vars(module).get(name) is original:
            vars(module)[name] = function
    setattr(dist, name, function)


def note(recorder: Recorder, what: str, instead: str) -> None:
    """Said in the prediction, once for each kind of thing."""
    said = recorder.__dict__.setdefault("_unrehearsed", set())
    if what not in said:
        said.add(what)
        recorder.journal.row(UnrehearsedRow(what, instead))
