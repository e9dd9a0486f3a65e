"""Notes every outermost backward pass: on which loss, with which factor, and what it left in the gradients.

The factor is the gradient that reaches the loss's own reduction in the graph: of division, of a scaler and so on.
Where ranks wait for one another, it is also noted when a pass has computed its gradients. DDP waits in a callback that
it gives to the engine near the end of the pass. A callback that is given at the beginning is called first, right when
all gradients are there.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, autocast_now, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import parameters_of
from scalewise.watch.examination.tensors import number, ordinary, quietly, readable
from scalewise.watch.journal import now_ns
from scalewise.watch.seams import Given, Looks, seam

MOST_NODES = 64  # walked down from the tensor that backward is called on
_REDUCTIONS = {1: "mean", 2: "sum"}


def install(notebook: Notebook) -> None:
    """Looks at `torch.autograd.backward`, which `Tensor.backward` calls.

    `autograd.grad` adds to no gradient and is left alone.
    """
    loop = loop_of(notebook)

    def backward(args: tuple[Any, ...], kwargs: Given) -> Looks:
        if loop.recorder.backward_depth:
            return
        look = _Look(loop, args[0] if args else kwargs["tensors"])
        began_ns = now_ns()
        try:
            yield
        finally:
            lasted_ns = now_ns() - began_ns
            look.end()
        look.note(lasted_ns)

    def entered(args: tuple[Any, ...], kwargs: Given) -> None:
        loop.hooks_on_saved = True

    passes = seam(torch.autograd, "backward")
    passes.during(notebook, backward)
    # Checkpointing and offloading unpack what was saved their own way, once.
    seam(saved_tensors_hooks, "__enter__").before(notebook, entered)
    if torch.distributed.is_available():
        passes.during(notebook, _see_computed(notebook))


def _see_computed(notebook: Notebook) -> Any:
    """Makes the look that notes when all gradients are there; host only, as a GPU computes on when it is asked."""

    def backward(args: tuple[Any, ...], kwargs: Given) -> Looks:
        if notebook.recorder.backward_depth or not torch.distributed.is_initialized():
            return
        handle = _listen(notebook, args[0] if args else kwargs["tensors"])
        try:
            yield
        finally:
            if handle is not None:
                handle.remove()

    return backward


class _Look:
    """The notes on one backward pass, from before it to after it."""

    def __init__(self, loop: Loop, tensors: Any) -> None:
        self._loop = loop
        given = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
        self._tensors = [one for one in given if isinstance(one, torch.Tensor)]
        self._autocast = autocast_now()
        self._closure = loop.recorder.optimizer_depth > 0
        self._close = loop.close
        self._loss = _free_value(self._tensors) if self._close else None
        self._reductions: list[Reduction] = []
        loop.backward_begins(self._tensors)
        self._see_zeroed_by_hand()
        self._empty = self._close and _no_gradients(loop)
        if self._close:
            self._find_reductions()

    def _see_zeroed_by_hand(self) -> None:
        loop = self._loop
        early = loop.early
        gone = False
        for probe in loop.probes.all():
            probe.before(early, self._close)
            if not probe.zeroed and probe.had is False and probe.parameter is not None:
                gone = probe.zeroed = True
        if gone:
            loop.notebook.note("zero", NOWHERE, True, place=NOWHERE)

    def _find_reductions(self) -> None:
        with quietly():
            self._reductions = reductions(self._tensors)
            for one in self._reductions:
                if not self._loop.hooks_on_saved:
                    one.count()
                one.listen()

    def end(self) -> None:
        """Removes our hooks from the graph, however the pass ended."""
        for one in self._reductions:
            one.forget()

    def _heard(self) -> "tuple[float | None, Reduction | None]":
        if not self._reductions:
            return None, None
        with quietly():
            return strongest(self._reductions)

    def note(self, lasted_ns: int) -> None:
        """Notes the pass when it has returned."""
        loop = self._loop
        early = loop.early
        for probe in loop.probes.all():
            probe.after(early, self._close)
        if self._close:
            loop.probes.choose(loop.optimizers(), early, self._empty)
        factor, reduction = self._heard()
        loop.backwards += 1
        reached = loop.probes.reached()
        loop.notebook.note(
            "backward",
            lasted_ns,
            self._autocast,
            self._loss,
            None if reached is None else reached.had,
            factor,
            reduction.kind if reduction is not None else "unknown",
            reduction.counted if reduction is not None else None,
            self._closure,
            None if reached is None else reached.gained,
        )


def _no_gradients(loop: Loop) -> bool:
    return all(one.grad is None for _, optimizer in loop.optimizers() for one in parameters_of(optimizer))


def _free_value(tensors: list[torch.Tensor]) -> float | None:
    """The value of a loss of one number on the host, where reading is free; None otherwise."""
    if len(tensors) != 1 or tensors[0].numel() != 1 or tensors[0].device.type != "cpu" or not ordinary(tensors[0]):
        return None
    return number(tensors[0])


def _listen(notebook: Notebook, tensors: Any) -> Any:
    """Waits for the first node of the graph to begin, and then gives the engine a callback."""
    first = next(iter(tensors), None) if isinstance(tensors, (tuple, list)) else tensors
    if not isinstance(first, torch.Tensor) or first.grad_fn is None or first.device.type != "cpu":
        return None
    began_ns = now_ns()

    def computed() -> None:
        try:
            notebook.note("computed", now_ns() - began_ns, place=NOWHERE)
        except Exception as error:
            notebook.broke("computing", error)

    def begins(gradients: Any) -> None:
        try:
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(computed)
        except Exception as error:
            notebook.broke("computing", error)

    return first.grad_fn.register_prehook(begins)


# ---- the reduction that a loss ends in


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
