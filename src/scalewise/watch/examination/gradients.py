"""Notes at the first steps whether any gradient differs from zero, their norm, and what the loss is made of."""

from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from scalewise.watch.examination.batch_norms import capturing, several_ranks
from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.loss import reductions
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import parameters_of
from scalewise.watch.examination.tensors import number, quietly, readable

# Nodes that pass values on unchanged, in another shape or type.
_SAME_VALUES = (
    "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "T", "Squeeze", "Unsqueeze", "Select", "Slice",
    "Clone", "ToCopy", "Index", "Contiguous", "AsStrided",
)  # fmt: skip
_MOST_HOPS = 8


def install(notebook: Notebook) -> None:
    """Registers a look at each backward pass (with the loop) and at each step (with torch)."""
    loop = loop_of(notebook)
    look = _Look(loop)
    loop.on_backward.append(look.at_loss)

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A closure has not computed its gradients yet.
        if notebook.on and not any(callable(one) for one in (*args, *kwargs.values())):
            try:
                look.at_step(optimizer)
            except Exception as error:
                notebook.broke("gradients", error)

    register_optimizer_step_pre_hook(before)


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
        try:
            for one in reductions(tensors):
                self._see(one.node)
        except Exception as error:
            self._loop.notebook.broke("loss", error)

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
