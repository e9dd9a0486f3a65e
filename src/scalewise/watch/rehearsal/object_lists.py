"""Objects that another rank would have sent are not there: the script keeps what it has, and the prediction says so."""

import functools
from typing import Any

import torch.distributed as dist

from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.group import bind, note

STAYS = "the list stays as it was"


def install(recorder: Recorder, rank: int) -> None:
    """Objects that this rank sends, or that all ranks send, go the ordinary way and come back as its own."""
    _keep(recorder, rank, "broadcast_object_list", "broadcast by another rank", source_at=1)
    _keep(recorder, rank, "scatter_object_list", "scattered by another rank", source_at=2)
    for name in ("all_gather_object", "gather_object"):
        _gather_own(recorder, name)
    _receive_nothing(recorder)


def _gather_own(recorder: Recorder, name: str) -> None:
    original: Any = getattr(dist, name)

    @functools.wraps(original)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        note(recorder, f"objects gathered from all ranks ({name})", "this rank's own stands for every rank's", "own")
        return original(*args, **kwargs)

    bind(name, gathered)


def _keep(recorder: Recorder, rank: int, name: str, how: str, source_at: int) -> None:
    original: Any = getattr(dist, name)

    @functools.wraps(original)
    def kept(*args: Any, **kwargs: Any) -> Any:
        source = args[source_at] if len(args) > source_at else kwargs.get("src")
        in_group = kwargs.get("group_src")
        if in_group is not None:
            group: Any = kwargs.get("group") or dist.group.WORLD
            source = dist.get_global_rank(group, in_group)
        if (source or 0) == rank:
            return original(*args, **kwargs)
        note(recorder, f"objects {how} ({name})", STAYS, "missing")
        return None

    bind(name, kept)


def _receive_nothing(recorder: Recorder) -> None:
    original: Any = getattr(dist, "recv_object_list", None)
    if original is None:
        return

    @functools.wraps(original)
    def recv_object_list(object_list: Any, src: Any = None, *args: Any, **kwargs: Any) -> int:
        note(recorder, "objects received from another rank (recv_object_list)", STAYS, "missing")
        return int(src or 0)

    bind("recv_object_list", recv_object_list)
