"""Makes process groups meant for NCCL with gloo, and tells wrappers of no GPU."""

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.records.collectives import DISTRIBUTED, functions_in
from scalewise.watch.call_arguments import Argument
from scalewise.watch.redirect.redirected_calls import RedirectedCalls, answer_outside
from scalewise.watch.redirect.virtual_device import gpu_index
from scalewise.watch.seams import seam, seams


def install(calls: RedirectedCalls) -> None:
    """Changes only what would fail without a GPU."""
    makers = ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration")
    averages = {one.name: one.averages for one in functions_in(DISTRIBUTED) if one.averages}
    joined = seams(dist, (*makers, "barrier", *averages), within="torch.distributed")
    for name in set(makers) & set(joined):
        joined[name].around(_with_gloo(calls, name))
    for name in set(averages) & set(joined):
        joined[name].around(_average(calls, name, averages[name]))
    joined["barrier"].around(_without(calls, "barrier", "device_ids"))
    asked = functools.partial(_backend_asked, calls, dist.get_backend)
    answer_outside(calls, dist, "get_backend", asked)
    answer_outside(calls, dist, "is_nccl_available", lambda: True)
    _redirect_mesh(calls)


def _with_gloo(calls: RedirectedCalls, name: str) -> Any:
    backend = Argument(getattr(dist, name), "backend")
    options = [Argument(getattr(dist, name), option) for option in ("device_id", "pg_options")]

    def redirected(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if "nccl" in str(backend.of(args, kwargs) or ""):
            calls.ask("nccl")
            calls.redirect(f"torch.distributed.{name}")
            args, kwargs = backend.replaced("gloo", args, kwargs)
        for option in options:
            if option.of(args, kwargs) is not None:
                calls.redirect(f"torch.distributed.{name}({option.name})")
                args, kwargs = option.replaced(None, args, kwargs)
        return call(*args, **kwargs)

    return redirected


def _backend_asked(calls: RedirectedCalls, original: Any, *args: Any, **kwargs: Any) -> str:
    """The backend that the script asked for: NCCL, if it has asked for NCCL anywhere."""
    found = str(original(*args, **kwargs))
    return "nccl" if found == "gloo" and "nccl" in calls.row().asked else found


def _without(calls: RedirectedCalls, name: str, option: str) -> Any:
    """Makes what drops an argument that only GPUs know."""
    only_gpus = Argument(getattr(dist, name), option)

    def redirected(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if only_gpus.of(args, kwargs) is not None:
            calls.redirect(f"torch.distributed.{name}({option})")
            args, kwargs = only_gpus.replaced(None, args, kwargs)
        return call(*args, **kwargs)

    return redirected


def _average(calls: RedirectedCalls, name: str, result: str) -> Any:
    """Makes what makes a collective sum and then divide, as gloo has no average."""
    op, group, output = (Argument(getattr(dist, name), argument) for argument in ("op", "group", result))

    def redirected(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        operation = op.of(args, kwargs)
        if operation is None or operation != dist.ReduceOp.AVG:
            return call(*args, **kwargs)
        calls.redirect(f"torch.distributed.{name}(AVG)")
        args, kwargs = op.replaced(dist.ReduceOp.SUM, args, kwargs)
        work = call(*args, **kwargs)
        divide = functools.partial(_divide, output.of(args, kwargs), dist.get_world_size(group.of(args, kwargs)))
        if work is None:
            divide()
        return None if work is None else Averaging(work, divide)

    return redirected


def _divide(tensor: torch.Tensor, ranks: int) -> None:
    with torch.no_grad():
        tensor.div_(ranks)


class Averaging:
    """A sum under way in the background, which is divided when it is waited for."""

    def __init__(self, work: Any, divide: Callable[[], None]) -> None:
        self._work = work
        self._divide: Callable[[], None] | None = divide

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Waits for the sum, and divides it once."""
        result = self._work.wait(*args, **kwargs)
        if self._divide is not None:
            divide, self._divide = self._divide, None
            divide()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _redirect_mesh(calls: RedirectedCalls) -> None:
    from torch.distributed import device_mesh

    def on_cpu(device_type: Any) -> Any:
        if gpu_index(device_type, 0) is None:
            return device_type
        # A mesh of GPUs gives each rank the GPU of its number, unless the script has chosen before.
        calls.ask(f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "cuda")
        calls.redirect("torch.distributed.device_mesh")
        return "cpu"

    def mesh(call: Any, device_type: str, *args: Any, **kwargs: Any) -> Any:
        return call(on_cpu(device_type), *args, **kwargs)

    def __init__(call: Any, self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        call(self, on_cpu(device_type), *args, **kwargs)

    seam(device_mesh, "init_device_mesh", within="torch.distributed").around(mesh)
    seam(device_mesh.DeviceMesh, "__init__").around(__init__)
