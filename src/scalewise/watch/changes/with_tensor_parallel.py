"""Trains a script for one device with tensor parallelism: each rank has a part of the columns or rows of linear layers.

Where one linear layer, or several side by side (queries, keys and values), lead to another and each part of their
columns alone decides about the same part of that layer's input, the first are divided by columns and the last by rows.
Whether that is so is tried out: noise in one part of the columns must leave the other parts as they are.
"""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.strategy.single_device import SingleDevice
from scalewise.watch.strategy.stand_ins import tensors_in_order
from scalewise.watch.strategy.strategy_interface import CannotApply, Strategy, Trained
from scalewise.watch.strategy.swapped_parameters import swapped_parameters
from scalewise.watch.strategy.whole_norm import clip_by_whole_norm

NAME = "with_tensor_parallel"
CHANGE = Declared(least_ranks=2, strategies={"tensor parallel": "with_tensor_parallel"})
_SIDE_BY_SIDE = (
    1,
    3,
    2,
)  # layers that may lead to one: of an MLP, queries with keys and values, a gate beside its input
_CLOSE = 1e-3  # relative distance of outputs that were computed in parts; other mistakes are far larger


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Finds the layers and divides them; every rank takes the whole batch."""
    clip_by_whole_norm(recorder)
    # What a rehearsed rank receives is made up, so that only shapes can be compared.
    alone = recorder.spec is not None and recorder.spec.rehearsed is not None
    SingleDevice(recorder, Strategy(NAME, partial(_applied, not alone), divides=False))


@dataclass(frozen=True)
class _Segment:
    """Linear layers that can be divided by columns, and the one after them that can be divided by rows."""

    columns: tuple[str, ...]
    rows: str

    def plan(self, local: bool) -> dict[str, Any]:
        """The style of each layer; `local`: what lies between them computes on plain parts."""
        styles: dict[str, Any] = {name: ColwiseParallel(use_local_output=local) for name in self.columns}
        return styles | {self.rows: RowwiseParallel()}


def _applied(compares: bool, trained: Trained) -> Any:
    mesh = init_device_mesh(trained.device.type, (trained.ranks,))
    with trained.unwatched(), torch.no_grad():
        segments = _segments(trained)
        if not segments:
            raise CannotApply(
                f"no linear layers follow each other so that {trained.ranks} parts of their columns stay apart: heads "
                "that do not divide, queries, keys and values in one matrix, or other layers in between"
            )
        plan = _plan_that_works(trained, mesh, segments, compares)
    with swapped_parameters(trained):
        parallelize_module(trained.model, mesh, plan)
    for optimizer in trained.optimizers:
        for group in optimizer.param_groups:
            if "foreach" in group:
                group["foreach"] = False  # which does not take plain and divided tensors together

    def forward(*args: Any, **kwargs: Any) -> Any:
        with implicit_replication():
            return trained.model(*args, **kwargs)

    return forward


# ---- which layers


def _segments(trained: Trained) -> tuple[_Segment, ...]:
    called = _called_once(trained)
    found, begin = [], 0
    while begin < len(called):
        segment = next(
            (one for count in _SIDE_BY_SIDE if (one := _segment(called, begin, count)) and _stays_apart(trained, one)),
            None,
        )
        if segment is not None:
            found.append(segment)
        begin += len(segment.columns) + 1 if segment is not None else 1
    return tuple(found)


def _called_once(trained: Trained) -> list[str]:
    """The names of the linear layers that the model calls once, in the order of their calls."""
    names = {one: name for name, one in trained.model.named_modules() if type(one) is nn.Linear}
    order: list[str] = []
    with _hooked({one: lambda layer, *rest: order.append(names[layer]) for one in names}):
        _run(trained.model, trained)
    held = [id(one) for _, one in trained.model.named_parameters(remove_duplicate=False)]
    return [name for name in order if order.count(name) == 1 and held.count(id(_layer(trained, name).weight)) == 1]


def _layer(trained: Trained, name: str) -> Any:
    return trained.model.get_submodule(name)


def _segment(called: list[str], begin: int, count: int) -> _Segment | None:
    """The segment of so many layers from here on and of the next one; None if there are not as many."""
    end = begin + count
    return _Segment(tuple(called[begin:end]), called[end]) if end < len(called) else None


def _stays_apart(trained: Trained, segment: _Segment) -> bool:
    """Tells whether noise in the last part of the columns changes nothing in the other parts of what the rows take."""
    layers = [_layer(trained, name) for name in segment.columns]
    width = _layer(trained, segment.rows).in_features
    if any(one.out_features % trained.ranks for one in layers) or width % trained.ranks:
        return False
    if len({one.out_features for one in layers}) > 1:
        return False
    seen: list[torch.Tensor] = []

    def look(layer: Any, inputs: Any) -> None:
        seen.append(inputs[0].detach().clone())
        raise _Enough

    def disturb(layer: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        kept = output.shape[-1] * (trained.ranks - 1) // trained.ranks
        return torch.cat([output[..., :kept], output[..., kept:] + 1.0], -1)

    rows = _layer(trained, segment.rows)
    for hooks in ({}, dict.fromkeys(layers, disturb)):
        handle = rows.register_forward_pre_hook(look)
        try:
            with contextlib.suppress(_Enough), _hooked(hooks):
                _run(trained.model, trained)
        finally:
            handle.remove()
    if len(seen) < 2 or seen[0].shape[-1] != width:
        return False
    kept = width * (trained.ranks - 1) // trained.ranks
    same = torch.equal(seen[0][..., :kept], seen[1][..., :kept])
    return same and not torch.equal(seen[0][..., kept:], seen[1][..., kept:])


class _Enough(Exception):
    """Ends a run of the model whose end is not needed."""


@contextlib.contextmanager
def _hooked(hooks: Mapping[Any, Any]) -> Iterator[None]:
    handles = [layer.register_forward_hook(act) for layer, act in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _run(model: Any, trained: Trained) -> Any:
    """The model's result on the batch of the first call, in the state in which the generators are now."""
    devices = [trained.device] if trained.device.type == "cuda" else []
    kept = [one.detach().clone() for one in model.buffers()]
    with torch.random.fork_rng(devices=devices):
        try:
            return model(*trained.args, **trained.kwargs)
        finally:
            for one, before in zip(model.buffers(), kept, strict=True):
                one.copy_(before)


# ---- how they are divided


def _plan_that_works(trained: Trained, mesh: Any, segments: tuple[_Segment, ...], compares: bool) -> dict[str, Any]:
    """The first plan under which a copy of the model returns what the model returns."""
    wanted = tensors_in_order(_run(trained.model, trained))
    simple = tuple(one for one in segments if len(one.columns) == 1)
    for local, chosen in ((segments, segments), (simple, segments), (simple, simple)):
        plan: dict[str, Any] = {}
        for one in chosen:
            plan |= one.plan(local=one in local)
        if plan and _works(trained, mesh, plan, wanted, compares):
            return plan
    raise CannotApply("what lies between its linear layers has sizes written into it: it does not compute on a part")


def _works(trained: Trained, mesh: Any, plan: dict[str, Any], wanted: list[torch.Tensor], compares: bool) -> bool:
    tried = copy.deepcopy(trained.model)
    parallelize_module(tried, mesh, plan)
    try:
        with implicit_replication():
            found = tensors_in_order(_run(tried, trained))
    except Exception:
        return False
    pairs = list(zip(wanted, found, strict=False))
    return len(wanted) == len(found) and all(
        not hasattr(b, "placements")  # a divided tensor, which the script could not go on with
        and a.shape == b.shape
        and (not compares or torch.allclose(a, b, _CLOSE, _CLOSE * float(a.abs().max())))
        for a, b in pairs
        if a.is_floating_point()
    )
