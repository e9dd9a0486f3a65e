"""Notes what becomes of gradients between a backward pass and the step: thrown away, clipped, used as they are.

At the first steps it notes whether any gradient differs from zero, their norm, and what the loss is made of. At each
clipping it notes the ratio of the gradient just before to that of the last backward pass.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.optimizer import Optimizer

from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.examination.backward import reductions
from scalewise.watch.examination.loop import Loop, capturing, loop_of, sampled, several_ranks
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import GradientProbe, parameters_of
from scalewise.watch.examination.tensors import number, quietly, readable
from scalewise.watch.seams import Given, Looks, Outermost, seam, seams, step_hooks

_CLIPS = {"clip_grad_norm_": "norm", "clip_grad_value_": "value", "_clip_grads_with_norm_": "given"}
_LIMIT = {"norm": "max_norm", "value": "clip_value", "given": "max_norm"}
# Nodes that pass values on unchanged, in another shape or type.
_SAME_VALUES = (
    "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "T", "Squeeze", "Unsqueeze", "Select", "Slice",
    "Clone", "ToCopy", "Index", "Contiguous", "AsStrided",
)  # fmt: skip
_MOST_HOPS = 8


def install(notebook: Notebook) -> None:
    """Looks at each backward pass (with the loop), at each step, and at what clips and zeroes between them."""
    loop = loop_of(notebook)
    look = _Look(loop)
    loop.on_backward.append(look.at_loss)

    def gradients(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A closure has not computed its gradients yet.
        if not any(callable(one) for one in (*args, *kwargs.values())):
            look.at_step(optimizer)

    def zero_grad(args: tuple[Any, ...], kwargs: Given) -> Looks:
        owner = receiver(args, kwargs)
        of_optimizer = isinstance(owner, Optimizer)
        had = _of_optimizer(loop, owner) if of_optimizer else _of_module(loop, owner)
        yield
        notebook.note("zero", loop.optimizer(owner) if of_optimizer else NOWHERE, had)

    step_hooks.before(notebook, gradients)
    outermost = Outermost()  # a call of one inside the other counts once
    for kind in (Optimizer, nn.Module):
        seam(kind, "zero_grad").during(notebook, zero_grad, outermost)
    _see_clips(loop)


def _see_clips(loop: Loop) -> None:
    outermost = Outermost()  # one of torch's functions calls another, and both are one clipping
    for name, clips in seams(clip_grad, _CLIPS, within="torch").items():
        clipping = _Clipping(loop, name)
        clips.during(loop.notebook, clipping.clip, outermost)
        clips.around(clipping.given_a_list)


class _Clipping:
    """The look at the calls of one function that clips."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop, self._how = loop, _CLIPS[name]
        original = getattr(clip_grad, name)
        names = ("parameters", _LIMIT[self._how], "total_norm")
        self._clipped, self._limited, self._told = (Argument(original, one) for one in names)

    def given_a_list(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Gives a list in place of a generator, which can be read once."""
        parameters = self._clipped.of(args, kwargs)
        if not isinstance(parameters, (torch.Tensor, list, tuple)) and isinstance(parameters, Iterable):
            args, kwargs = self._clipped.replaced(list(parameters), args, kwargs)
        return call(*args, **kwargs)

    def clip(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        """Notes one clipping."""
        loop = self._loop
        parameters = self._clipped.of(args, kwargs)
        probe = loop.probes.among([parameters] if isinstance(parameters, torch.Tensor) else parameters)
        before = probe.ratio(loop.early) if probe is not None else None
        result = yield
        limit = _number(self._limited.of(args, kwargs))
        found = self._told.of(args, kwargs) if self._how == "given" else result
        norm = _number(found) if self._how != "value" and _free(loop, found) else None
        loop.notebook.note("clip", "value" if self._how == "value" else "norm", limit, norm, before)
        _remember(loop, probe, before)


class _Look:
    """The facts about the loss that the next step rests on."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._classes: int | None = None
        self._told: set[tuple[str, str, int]] = set()

    def at_loss(self, tensors: list[torch.Tensor]) -> None:
        """Looks at the loss when a backward pass is about to begin."""
        if not self._loop.close:
            return
        for one in reductions(tensors):
            self._see(one.node)

    def _see(self, node: Any) -> None:
        name = node.name()
        self._classes = _classes(node)
        if "NllLoss" in name:
            above = _before(node)
            loss, inner = ("cross_entropy", _before(above)) if _is(above, "LogSoftmax") else ("nll_loss", above)
            if _is(inner, "Softmax"):
                self._tell(loss, "softmax")
        elif name.startswith("BinaryCrossEntropyWithLogits") and _is(_before(node), "Sigmoid"):
            self._tell("binary_cross_entropy_with_logits", "sigmoid")

    def _tell(self, loss: str, before: str) -> None:
        place = self._loop.notebook.places.here()
        if (loss, before, place) not in self._told:
            self._told.add((loss, before, place))
            self._loop.notebook.note("twice", loss, before, place=place)

    def at_step(self, optimizer: Optimizer) -> None:
        """Notes the gradients before the optimizer uses them."""
        loop = self._loop
        if not (loop.early or sampled(loop.windows + 1)) or capturing():
            return
        local = [_local(one.grad) for one in parameters_of(optimizer) if one.grad is not None]
        known = [one for one in local if readable(one, early=True)]
        if len(known) < len(local):
            return  # sparse, or on no device: nothing is noted of them
        with quietly():
            zero = not any(one.numel() and bool(one.any()) for one in known)
            norm = _norm(known) if not zero and several_ranks() else None
        ranks = next((found for one in parameters_of(optimizer) if (found := _shard_ranks(one))), [])
        loop.notebook.note(
            "gradients", loop.optimizer(optimizer), len(local), zero and bool(local), self._classes, norm, ranks
        )


def _local(tensor: Any) -> Any:
    """The part of a DTensor that is on this rank; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def _shard_ranks(parameter: Any) -> list[int]:
    """The ranks that hold the shards of a DTensor; empty for a plain tensor, or for one that is whole on every rank."""
    placements = getattr(parameter, "placements", ())
    sharded = [dim for dim, one in enumerate(placements) if one.is_shard()]
    if not sharded:
        return []
    mesh = parameter.device_mesh
    ranks = {rank for dim in sharded if mesh.size(dim) > 1 for rank in _line_of(mesh, dim)}
    return sorted(ranks)


def _line_of(mesh: Any, dim: int) -> list[int]:
    """The ranks along one dimension of a mesh, through this one."""
    return list(torch.distributed.get_process_group_ranks(mesh.get_group(dim)))


def _norm(tensors: list[torch.Tensor]) -> float | None:
    norms = [torch.linalg.vector_norm(one, dtype=torch.float64) for one in tensors if one.is_floating_point()]
    devices = {one.device for one in norms}
    return number(torch.linalg.vector_norm(torch.stack(norms))) if len(devices) == 1 else None


def _classes(reduction: Any) -> int | None:
    """The number of classes that a cross entropy's softmax chooses among; targets are classes or probabilities."""
    waiting = [reduction]
    for _ in range(_MOST_HOPS):
        waiting = [child for node in waiting for child, _ in node.next_functions if child is not None]
        for node in waiting:
            if _is(node, "LogSoftmax"):
                shape, dim = node._input_metadata[0].shape, node._saved_dim
                return int(shape[dim if dim < len(shape) else dim - 2**64])
    return None


def _before(node: Any) -> Any:
    """The node that made the values a node was given, before any changes of shape."""
    for _ in range(_MOST_HOPS):
        node = next((child for child, _ in node.next_functions if child is not None), None) if node else None
        if node is None or not any(_is(node, name) for name in _SAME_VALUES):
            break
    return node


def _is(node: Any, name: str) -> bool:
    return node is not None and node.name().rstrip("0123456789") == f"{name}Backward"


# ---- clipping


def _remember(loop: Loop, probe: GradientProbe | None, before: float | None) -> None:
    """Keeps the clipping's own factor, so that the step's ratio can leave it out and hold all other changes."""
    after = probe.ratio(loop.early) if probe is not None and before else None
    if probe is not None and before and after:
        probe.unclipped *= before / after


def _free(loop: Loop, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and readable(value, loop.early)


def _number(value: Any) -> float:
    return number(value) if isinstance(value, torch.Tensor) else float(value)


# ---- zeroing


def _of_optimizer(loop: Loop, optimizer: Optimizer) -> bool:
    return _loses(loop, loop.probes.of(loop.optimizer(optimizer)), parameters_of(optimizer))


def _of_module(loop: Loop, module: nn.Module) -> bool:
    parameters: list[torch.Tensor] = list(module.parameters())
    return _loses(loop, loop.probes.among(parameters), parameters)


def _loses(loop: Loop, probe: GradientProbe | None, parameters: list[torch.Tensor]) -> bool:
    """Returns whether gradients are thrown away: zeros that an earlier call has left do not count."""
    if probe is None or probe.parameter is None:
        return any(one.grad is not None for one in parameters)
    held = probe.holds(loop.early) if loop.close else None  # later, what was seen of backward and zeroing is enough
    lost = not probe.zeroed and probe.gradient is not None if held is None else held
    probe.zeroed = True
    return lost
