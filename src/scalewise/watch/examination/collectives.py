"""Notes each collective and message through torch.distributed before it can block, and when it has returned.

It also notes when the process group is made and destroyed.
"""

import threading
from collections import Counter
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from scalewise.records.collectives import DISTRIBUTED, CollectiveFunction, functions_in
from scalewise.records.notes import BUFFERS, NOWHERE
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.hooks.batch_rows import first_tensor
from scalewise.watch.seams import Given, Looks, seam, seams

WRITTEN_AT_ONCE = 3  # times that a line is new


def install(notebook: Notebook) -> None:
    """Looks at the functions that the ordinary hook has wrapped already, and at the wait for those only begun."""
    inside = _Inside()
    by_name = {one.name: one for one in functions_in(DISTRIBUTED)}
    for name, calls in seams(dist, by_name, within="torch.distributed").items():
        calls.around(_noted(notebook, by_name[name], calls.original, inside))
    seam(dist.distributed_c10d.Work, "wait").around(_waiting(notebook, inside))
    _see_buffers(notebook, inside)
    _see_groups(notebook)


def _see_groups(notebook: Notebook) -> None:
    """Notes when the group of all ranks is made and destroyed."""

    def note(event: str) -> None:
        if dist.is_initialized():
            notebook.note("group", event, dist.get_backend(), dist.get_world_size())

    def init_process_group(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
        note("init")

    def destroy_process_group(args: tuple[Any, ...], kwargs: Given) -> None:
        group = args[0] if args else kwargs.get("group")
        if group is None or group is dist.group.WORLD:
            note("destroy")

    module = dist.distributed_c10d
    seam(dist, "init_process_group", [module]).after(notebook, init_process_group)
    seam(dist, "destroy_process_group", [module]).before(notebook, destroy_process_group)


class _Inside:
    """The mark of a collective under way: collectives call one another, and only the outermost one is noted."""

    def __init__(self) -> None:
        self.one = False
        self.main = threading.main_thread().ident
        self._told: Counter[int] = Counter()

    def skips(self) -> bool:
        """Returns whether this call is left out: it is inside another one, or not in the main thread."""
        return self.one or threading.get_ident() != self.main

    def tell(self, notebook: Notebook, place: int) -> None:
        """Writes the notes at once for a new line: two collectives that do not match may kill the process at once."""
        self._told[place] += 1
        if self._told[place] <= WRITTEN_AT_ONCE:
            notebook.write()
        else:
            notebook.write_if_due()


class _Signature:
    """The positions of the peer, the group and `async_op` among a function's arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        names = ("dst", "src", "group_dst", "group_src", "group", "async_op")
        self._arguments = {name: Argument(function, name) for name in names}

    def value(self, name: str, args: Any, kwargs: Any) -> Any:
        return self._arguments[name].of(args, kwargs)

    def peer(self, args: Any, kwargs: Any) -> int:
        """The other end of a message, as a rank of the whole run."""
        for name in ("dst", "src"):
            found = self.value(name, args, kwargs)
            if isinstance(found, int):
                return found
            found = self.value(f"group_{name}", args, kwargs)
            if isinstance(found, int):
                group: Any = self.value("group", args, kwargs) or dist.group.WORLD
                return dist.get_global_rank(group, found)
        return NOWHERE

    def ranks(self, args: Any, kwargs: Any) -> list[int]:
        """The ranks of the group; empty if it is that of all ranks."""
        group = self.value("group", args, kwargs)
        return [] if group is None or group is dist.group.WORLD else list(dist.get_process_group_ranks(group))


def _noted(
    notebook: Notebook, function: CollectiveFunction, original: Callable[..., Any], inside: _Inside
) -> Callable[..., Any]:
    signature, kind = _Signature(original), function.kind

    def begin(args: Any, kwargs: Any) -> int:
        tensor = first_tensor((args, kwargs), depth=4)
        size_bytes = 0 if tensor is None else tensor.numel() * tensor.element_size()
        waits = function.waits and not signature.value("async_op", args, kwargs)
        place = notebook.places.here()
        ranks, peer = signature.ranks(args, kwargs), signature.peer(args, kwargs)
        notebook.note("collective", kind, size_bytes, ranks, peer, waits, place=place)
        inside.tell(notebook, place)
        return place

    def noted(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if inside.skips() or not notebook.on:
            return call(*args, **kwargs)
        place = NOWHERE
        try:
            place = begin(args, kwargs)
        except Exception as error:
            notebook.broke("collective", error)
        inside.one = True
        began_ns = perf_counter_ns()
        try:
            result = call(*args, **kwargs)
        finally:
            inside.one = False
        notebook.note("collective_done", kind, perf_counter_ns() - began_ns, place=place)
        return result

    return noted


def _waiting(notebook: Notebook, inside: _Inside) -> Callable[..., Any]:
    """Makes what notes waits for a message: one that was begun with `isend` may block where the script waits for it."""

    def wait(call: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if inside.skips() or not notebook.on:
            return call(self, *args, **kwargs)
        place = notebook.places.here()
        notebook.note("collective", "wait", 0, [], NOWHERE, True, place=place)
        inside.tell(notebook, place)
        began_ns = perf_counter_ns()
        result = call(self, *args, **kwargs)
        notebook.note("collective_done", "wait", perf_counter_ns() - began_ns, place=place)
        return result

    return wait


def _see_buffers(notebook: Notebook, inside: _Inside) -> None:
    """Notes DDP's broadcast of buffers before a forward pass in evaluation, too, where one rank may be alone.

    In training a backward pass follows, which is seen to need all ranks.
    """
    from torch.nn.parallel import DistributedDataParallel

    def buffers(args: tuple[Any, ...], kwargs: Given) -> Looks:
        wrapper = receiver(args, kwargs)
        if inside.skips() or (wrapper.training and torch.is_grad_enabled()):
            return
        place, began_ns = notebook.places.here(), perf_counter_ns()
        ranks = list(dist.get_process_group_ranks(wrapper.process_group))
        group = [] if len(ranks) == dist.get_world_size() else ranks
        notebook.note("collective", BUFFERS, 0, group, NOWHERE, True, place=place)
        inside.tell(notebook, place)
        yield
        notebook.note("collective_done", BUFFERS, perf_counter_ns() - began_ns, place=place)

    for private in seams(DistributedDataParallel, ("_sync_buffers",)).values():
        private.during(notebook, buffers)
