"""Counts what a backward pass is made of, in autograd's own graph: matmuls, convolutions, attention step by step.

It looks at the graphs of three passes, so that changing shapes are noticed. If attention is computed step by step, it
looks at the forward passes of the next step to learn from which lines.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from scalewise.records.examination import AttentionRow, AttentionSeen, GraphRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.seams import Subscriber, seam

PASSES = (2, 5, 11)  # backward passes that are looked at, counted from 0
MOST_NODES = 50_000
MOST_HOPS = 12  # between a matmul and a softmax
_MATMULS = ("MmBackward", "AddmmBackward", "BmmBackward", "BaddbmmBackward", "LinearBackward", "MvBackward")
_PRODUCTS = ("BmmBackward", "BaddbmmBackward")
_FUSED = ("ScaledDotProduct", "FlashAttention", "EfficientAttention")
_SOFTMAX = ("SoftmaxBackward", "SafeSoftmaxBackward")
# What may stand between the products and the softmax: shapes, types, dropout, scale and mask.
_BETWEEN = (
    "View", "UnsafeView", "Reshape", "Expand", "Transpose", "Permute", "Clone", "ToCopy", "Dropout", "Mul", "Div",
    "Add", "Sub", "MaskedFill", "Where", "T", "Squeeze", "Unsqueeze", "Alias", "AsStrided", "Slice",
)  # fmt: skip
_CALLS = ("softmax", "_safe_softmax", "scaled_dot_product_attention", "multi_head_attention_forward")


def install(notebook: Notebook) -> None:
    """Registers a look at each backward pass before it begins."""
    loop = loop_of(notebook)
    lines = _Lines(notebook)

    def look(tensors: list[torch.Tensor]) -> None:
        lines.stop()
        if loop.backwards not in PASSES or not tensors:
            return
        row = graph_row(loop, tensors)
        notebook.row(row)
        if row.attention and loop.backwards == PASSES[0]:
            lines.look()

    loop.on_backward.append(look)


def graph_row(loop: Loop, tensors: list[torch.Tensor]) -> GraphRow:
    """The row that counts what a backward pass on these tensors will go through."""
    matmuls: Counter[str] = Counter()
    attention: Counter[tuple[tuple[int, ...], str]] = Counter()
    shapes = hashlib.blake2b(digest_size=8)
    nodes = convolutions = fused = 0
    compiled = False
    for node in _nodes(tensors):
        nodes += 1
        name = node.name()
        compiled = compiled or name.startswith("CompiledFunction")
        if name.startswith(_MATMULS):
            matmuls[_dtype(node)] += 1
            shapes.update(str(_shape(node)).encode())
            if name.startswith(_PRODUCTS) and (softmax := _attention(node)) is not None:
                attention[_shape(softmax), _dtype(softmax)] += 1
        elif "Convolution" in name:
            convolutions += 1
            shapes.update(str(_shape(node)).encode())
        elif name.startswith(_FUSED):
            fused += 1
    return GraphRow(
        step=loop.windows + 1,
        device=tensors[0].device.type,
        nodes=nodes,
        matmuls=dict(matmuls),
        convolutions=convolutions,
        shapes=shapes.hexdigest(),
        attention=tuple(AttentionSeen(shape, dtype, times) for (shape, dtype), times in attention.items()),
        fused_attention=fused,
        compiled=compiled,
    )


def _nodes(tensors: list[torch.Tensor]) -> Iterator[Any]:
    waiting = [one.grad_fn for one in tensors if one.grad_fn is not None]
    seen: set[Any] = set(waiting)
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        yield node
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)


def _attention(product: Any) -> Any:
    """The softmax that this product weighs with, if another product made its scores; None if this is no attention."""
    softmax = _below(product, _SOFTMAX)
    return softmax if softmax is not None and _below(softmax, _PRODUCTS) is not None else None


def _below(node: Any, wanted: tuple[str, ...]) -> Any:
    """The nearest wanted node below this one, with nothing but shapes, types, scales and masks between."""
    waiting = [(child, 0) for child, _ in node.next_functions if child is not None]
    while waiting:
        child, hops = waiting.pop()
        name = child.name()
        if name.startswith(wanted):
            return child
        kind = name.partition("Backward")[0].removeprefix("Native")
        if kind in _BETWEEN and hops < MOST_HOPS:
            waiting += [(one, hops + 1) for one, _ in child.next_functions if one is not None]
    return None


def _shape(node: Any) -> tuple[int, ...]:
    described = node._input_metadata
    return tuple(int(length) for length in described[0].shape) if described else ()


def _dtype(node: Any) -> str:
    described = node._input_metadata
    return str(described[0].dtype).removeprefix("torch.") if described else "unknown"


class _Lines:
    """A search for the lines that compute attention, in the forward passes before the next backward pass."""

    def __init__(self, notebook: Notebook) -> None:
        self._calls: Any = _Calls(notebook)
        self._inside = False
        self._looking: Subscriber | None = None

    def look(self) -> None:
        """Begins to look."""
        self._looking = seam(nn.Module, "__call__").around(self._module)

    def stop(self) -> None:
        """Stops looking."""
        looking, self._looking = self._looking, None
        if looking is not None:
            seam(nn.Module, "__call__").leave(looking)

    def _module(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self._inside or not torch.is_grad_enabled():
            return call(*args, **kwargs)
        self._inside = True
        try:
            with self._calls:
                return call(*args, **kwargs)
        finally:
            self._inside = False


class _Calls(TorchFunctionMode):
    """A mode that notes attention in one forward pass; a call inside another is part of that one."""

    def __init__(self, notebook: Notebook) -> None:
        super().__init__()
        self._notebook = notebook
        self._written: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Passes every function through, and notes the lines of those that compute attention."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in _CALLS:
            try:
                place = self._notebook.places.here()
                if place not in (NOWHERE, *self._written):
                    self._written.add(place)
                    self._notebook.row(AttentionRow(place, name))
            except Exception as error:
                self._notebook.broke("graph", error)
        return func(*args, **kwargs)
