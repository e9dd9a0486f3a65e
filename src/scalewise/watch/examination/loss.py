"""Finds the loss's own reduction in the graph, and the gradient that reaches it: of division, scaler and so on."""

from collections.abc import Iterable
from typing import Any

import torch

from scalewise.watch.examination.tensors import number, readable

MOST_NODES = 64  # walked down from the tensor that backward is called on
_REDUCTIONS = {1: "mean", 2: "sum"}


class Reduction:
    """A node that makes one number of many, with the gradient that arrives at it."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.kind = _kind(node)
        self._elements = _elements(node)
        self.counted: int | None = None  # elements that were not to be ignored
        self.arrived: torch.Tensor | None = None
        self._handle: Any = None

    def count(self) -> None:
        """Counts the elements before the pass, which frees what is saved for it."""
        self.counted = self._elements if self.kind != "unknown" else None
        if "NllLoss" in self.node.name():
            target = self.node._saved_target
            chosen = readable(target, early=True)
            self.counted = int(number((target != self.node._saved_ignore_index).sum())) if chosen else None

    @property
    def divisor(self) -> int:
        """The number that a mean over the elements divides by, as far as it is known; else 0."""
        return self.counted or self._elements or 0

    def listen(self) -> None:
        """Waits for the gradient that arrives at the node."""
        self._handle = self.node.register_prehook(self._hear)

    def _hear(self, gradients: Any) -> None:
        self.arrived = next((one for one in gradients if one is not None), None)

    def forget(self) -> None:
        """Stops waiting when the pass is over."""
        self._handle.remove()

    @property
    def factor(self) -> float | None:
        """The gradient that arrived; None if there is none or it cannot be read."""
        if self.arrived is None or self.arrived.numel() != 1 or not readable(self.arrived, early=True):
            return None
        return number(self.arrived)


def reductions(tensors: Iterable[torch.Tensor]) -> list[Reduction]:
    """The reductions that a backward pass on these tensors reaches first, through nodes of single numbers alone."""
    waiting = [one.grad_fn for one in tensors if one.numel() == 1 and one.grad_fn is not None]
    seen: set[Any] = set(waiting)
    found = []
    while waiting and len(seen) <= MOST_NODES:
        node = waiting.pop()
        below = [(child, index) for child, index in node.next_functions if child is not None]
        if any(_size(child, index) != 1 for child, index in below):
            found.append(Reduction(node))
            continue
        for child, _ in below:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return found


def reduction_node(tensor: torch.Tensor) -> Any:
    """The nearest node that makes one number of many, found on the first path within 8 nodes."""
    node: Any = tensor.grad_fn
    for _ in range(8):
        below = [] if node is None else [one for one in node.next_functions if one[0] is not None]
        if not below or any(_size(child, index) != 1 for child, index in below):
            break
        node = below[0][0]
    return node


def strongest(found: Iterable[Reduction]) -> tuple[float | None, Reduction | None]:
    """The largest gradient that reached one of the reductions, and that reduction."""
    heard = [(one.factor, one) for one in found]
    known = [(factor, one) for factor, one in heard if factor is not None]
    if not known:
        return None, None
    factor, reduction = max(known, key=lambda pair: abs(pair[0]))
    return factor + _smoothing(reduction, known), reduction


def _smoothing(reduction: Reduction, known: Iterable[tuple[float, Reduction]]) -> float:
    """The part of a cross entropy's gradient that label smoothing gives to a sum over the same log-probabilities."""
    if "NllLoss" not in reduction.node.name() or not reduction.divisor:
        return 0.0
    probabilities, index = reduction.node.next_functions[0]
    classes = probabilities._input_metadata[index].shape[1:2]
    return sum(
        factor * int(classes[0]) * (reduction.divisor if one.kind == "sum" else 1)
        for factor, one in known
        if one is not reduction and classes and _leads_to(one.node, probabilities, hops=5)
    )


def _leads_to(node: Any, wanted: Any, hops: int) -> bool:
    for _ in range(hops):
        node = next((child for child, _ in node.next_functions if child is not None), None)
        if node is None or node == wanted:
            return node is not None
    return False


def _size(node: Any, index: int) -> int:
    """The size of the tensor that this node made; 0 if the node does not say."""
    described = node._input_metadata
    if node.name().endswith("AccumulateGrad") or index >= len(described):
        return 0  # a parameter, whatever its size, is where losses end
    size = 1
    for length in described[index].shape:
        size *= int(length)
    return size


def _kind(node: Any) -> str:
    name = node.name()
    if hasattr(node, "_saved_reduction"):
        return _REDUCTIONS.get(node._saved_reduction, "unknown")
    if name.startswith("MeanBackward"):
        return "mean"
    return "sum" if name.startswith("SumBackward") else "unknown"


def _elements(node: Any) -> int | None:
    """The number of elements of a node's input; for a log-likelihood one per row, whatever the classes."""
    child, index = next((one for one in node.next_functions if one[0] is not None), (None, 0))
    described = child._input_metadata if child is not None else ()
    if index >= len(described):
        return None
    shape = [int(length) for length in described[index].shape]
    if "NllLoss" in node.name() and len(shape) > 1:
        del shape[1]
    elements = 1
    for length in shape:
        elements *= length
    return elements
