"""Replaces objects that another rank would have sent: the script keeps its own, and the prediction says so."""

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from scalewise.records.collectives import DISTRIBUTED, functions_in
from scalewise.watch.call_arguments import Argument
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.group import bind, note

_TOLD = {"broadcast": "broadcast", "scatter": "scattered"}
STAYS = "the list stays as it was"


def install(recorder: Recorder, rank: int) -> None:
    """Wraps the functions; objects that this rank or all ranks send go the ordinary way and come back as its own."""
    for one in functions_in(DISTRIBUTED):
        if one.objects is None or not hasattr(dist, one.name):
            continue
        if one.objects == "one_rank":
            _keep(recorder, rank, one.name, f"{_TOLD.get(one.kind, 'sent')} by another rank")
        elif one.objects == "every_rank":
            _gather_own(recorder, one.name)
        elif one.objects == "sender":
            _receive_nothing(recorder, one.name)


def _gather_own(recorder: Recorder, name: str) -> None:
    original: Any = getattr(dist, name)

    @functools.wraps(original)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        note(recorder, f"objects gathered from all ranks ({name})", "this rank's own stands for every rank's", "own")
        return original(*args, **kwargs)

    bind(name, gathered)


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


def _keep(recorder: Recorder, rank: int, name: str, how: str) -> None:
    original: Any = getattr(dist, name)
    source = _source(original)

    @functools.wraps(original)
    def kept(*args: Any, **kwargs: Any) -> Any:
        if source(args, kwargs) == rank:
            return original(*args, **kwargs)
        note(recorder, f"objects {how} ({name})", STAYS, "missing")
        return None

    bind(name, kept)


def _receive_nothing(recorder: Recorder, name: str) -> None:
    source = _source(getattr(dist, name))

    @functools.wraps(getattr(dist, name))
    def received(*args: Any, **kwargs: Any) -> int:
        note(recorder, f"objects received from another rank ({name})", STAYS, "missing")
        return source(args, kwargs)

    bind(name, received)
