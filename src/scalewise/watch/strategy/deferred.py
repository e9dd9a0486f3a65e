"""Records what a script makes of a model's outputs up to its loss, to compute it once for each part of the batch.

The model's outputs are stand-ins without values: tensors of the right shape that note every call of torch they enter.
When the script calls `backward`, the real passes are made, part by part, and the noted calls are repeated on each part;
tensors of the script's own that have the batch's rows are divided likewise.
"""

import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from scalewise.watch.strategy.shares import Span

_READS = {
    "item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__index__", "__format__", "__repr__", "__array__",
    "__complex__", "is_nonzero", "nonzero", "__contains__",
}  # fmt: skip
_PLACES = {"device", "is_cuda", "is_meta", "is_cpu"}
_SHAPED = {"view", "reshape", "expand"}
_numbers = itertools.count()


class StandIn(torch.Tensor):
    """A stand-in for a tensor that is computed later; it says its shape and type, and notes what is done with it."""

    number: int
    recorded: "Recorded"
    shape_of: torch.Tensor  # a tensor without storage
    learns: bool  # asking torch whether it requires a gradient would be noted as a call

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Notes a call instead of making it."""
        given = (args, kwargs or {})
        first = next(one for one in pytree.tree_leaves(given) if isinstance(one, StandIn))
        return first.recorded.called(func, *given)


class Passes(Protocol):
    """Makes the real passes of a strategy."""

    def run(self, recorded: "Recorded", loss: StandIn) -> None:
        """Makes the forward and backward passes on this loss, and ends with `Recorded.finish`."""

    def early(self, recorded: "Recorded", values: dict[int, torch.Tensor]) -> Span:
        """Computes everything noted so far with its graph, into `values`; returns the rows that it is of."""

    def refuse(self, reason: str) -> Any:
        """Ends the rank, as the strategy cannot be applied."""


@dataclass
class _Call:
    func: Any
    args: Any
    kwargs: Any
    grad: bool
    autocast: tuple[bool, torch.dtype]
    results: list[tuple[int, int]] = field(default_factory=list)  # place among the result's leaves, number


class Recorded:
    """The calls between one forward pass of the model, or several, and the loss."""

    def __init__(self, rows: int, device: torch.device, passes: "Passes") -> None:
        self.rows = rows
        self.device = device
        self._passes = passes
        self._calls: list[_Call] = []
        self._alive: weakref.WeakValueDictionary[int, StandIn] = weakref.WeakValueDictionary()
        self._values: dict[int, torch.Tensor] = {}  # after the passes, of this rank's own rows
        self._own: Span = (0, rows)
        self._early = False  # the outputs were computed before the backward pass, as the script has asked for a value
        self.over = False

    def stand_in(self, shape_of: torch.Tensor, learns: bool) -> StandIn:
        """Makes a stand-in for a tensor like this one."""
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            learns = learns and shape_of.is_floating_point()
            made = torch.Tensor._make_subclass(StandIn, shape_of, learns)
        made.number, made.recorded, made.shape_of, made.learns = next(_numbers), self, shape_of, learns
        self._alive[made.number] = made
        return made

    def outputs(self, like: Any) -> Any:
        """Makes stand-ins for a model's result; what is no tensor stays."""
        return pytree.tree_map_only(torch.Tensor, lambda one: self.stand_in(one.to("meta"), True), like)

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Notes a call, and returns stand-ins for its result."""
        name = getattr(func, "__name__", "")
        if name == "__get__" and getattr(func.__self__, "__name__", "") in _PLACES:
            return _place_of(func.__self__.__name__, self.device)
        if name == "backward":
            return self._backward(args, kwargs)
        if name in _READS:
            return self._read(func, args, kwargs)
        if self.over or self._early:
            return self._computed(func, args, kwargs)
        return self._noted(func, args, kwargs)

    def _noted(self, func: Any, args: Any, kwargs: Any) -> Any:
        shown = {id(one.shape_of): one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, StandIn)}
        learns = torch.is_grad_enabled() and any(one.learns for one in shown.values())
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            shapes = pytree.tree_map_only(torch.Tensor, _shape_of, (args, kwargs))
            result = func(*shapes[0], **shapes[1])
        if not any(isinstance(one, torch.Tensor) for one in pytree.tree_leaves(result)):
            return result
        call = _Call(func, args, kwargs, torch.is_grad_enabled(), _autocast_now(self.device))
        leaves, form = pytree.tree_flatten(result)
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                leaves[index] = shown.get(id(leaf)) or self.stand_in(leaf, learns and func is not torch.Tensor.detach)
                call.results.append((index, leaves[index].number))
        self._calls.append(call)
        return pytree.tree_unflatten(leaves, form)

    def repeat(self, values: dict[int, torch.Tensor], own: Span) -> None:
        """Repeats the noted calls on a part of the rows; `values` has the outputs by number and takes all results."""
        for call in self._calls:
            args, kwargs = self._replaced(call.func, (call.args, call.kwargs), values, own)
            enabled, dtype = call.autocast
            with (
                torch.set_grad_enabled(call.grad and torch.is_grad_enabled()),
                torch.autocast(self.device.type, dtype=dtype, enabled=enabled),
            ):
                leaves = pytree.tree_leaves(call.func(*args, **kwargs))
            for index, number in call.results:
                values[number] = leaves[index]

    def finish(self, parts: Sequence[dict[int, torch.Tensor]], spans: Sequence[Span], weights: Sequence[float]) -> None:
        """Keeps what the stand-ins stood for, joined over the parts, for those that the script still has."""
        self.over, self._own = True, (spans[0][0], spans[-1][1])
        for number in list(self._alive):
            found = [part[number].detach() for part in parts if number in part]
            if len(found) == len(parts):
                self._values[number] = _joined(found, weights)
        self._calls.clear()

    def keep(self, number: int, value: torch.Tensor) -> None:
        """Keeps the value of one stand-in, as every rank is to show it."""
        self._values[number] = value

    def _computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Makes a call after the passes, on values; results stay stand-ins, as they have this rank's rows only."""
        args, kwargs = self._replaced(func, (args, kwargs), self._values, self._own)
        return pytree.tree_map_only(torch.Tensor, self._with_value, func(*args, **kwargs))

    def _with_value(self, value: torch.Tensor) -> torch.Tensor:
        if value.dim() == 0 and self.over:
            return value
        made = self.stand_in(value.to("meta"), value.requires_grad)
        self._values[made.number] = value
        return made

    def _read(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(func, "__name__", "")
        if not self.over and not self._early:
            if name in ("__repr__", "__format__"):
                return "a tensor that is not computed yet"
            self._own = self._passes.early(self, self._values)
            self._early = True
        args, kwargs = self._replaced(func, (args, kwargs), self._values, self._own)
        return func(*args, **kwargs)

    def _backward(self, args: Any, kwargs: Any) -> None:
        loss, more = args[0], (*args[1:], *kwargs.values())
        if self.over:
            self._passes.refuse("the script goes backward more than once through one forward pass")
        if any(one is not None and one is not False for one in more) or not isinstance(loss, StandIn):
            self._passes.refuse("the script gives its backward pass more than a loss")
        if not self._early:
            self._passes.run(self, loss)
            return
        self._values[loss.number].backward()
        self.over = True
        self._values = {number: value.detach() for number, value in self._values.items()}

    def _lengths(self, given: Any, values: dict[int, torch.Tensor], own: Span) -> Iterator[int]:
        """The lengths that the stand-ins among the arguments have, or would have with all rows of the batch."""
        part = own[1] - own[0]
        for one in pytree.tree_leaves(given):
            if isinstance(one, StandIn) and one.shape_of.dim():
                yield one.shape_of.shape[0]
                here = values[one.number].shape[0] if one.number in values else 0
                if here and here % part == 0:
                    yield here // part * self.rows

    def _replaced(self, func: Any, given: Any, values: dict[int, torch.Tensor], own: Span) -> Any:
        """The arguments with values for stand-ins, and with a part's rows of whatever has the batch's."""
        lengths = set(self._lengths(given, values, own))

        def value(one: Any) -> Any:
            if isinstance(one, StandIn):
                if one.number not in values:
                    self._passes.refuse("the script uses an output of another pass than the one under way")
                return values[one.number]
            if isinstance(one, torch.Tensor) and one.dim() and one.shape[0] in lengths and not one.requires_grad:
                return rows_of_part(one, self.rows, own)
            return one

        args, kwargs = pytree.tree_map(value, given)
        if getattr(func, "__name__", "") in _SHAPED and len(args) > 1:
            args = (args[0], _first_scaled(args[1], self.rows, own), *args[2:])
        return args, kwargs


def _first_scaled(shape: Any, rows: int, own: Span) -> Any:
    """The first length of a shape, for a part of the rows, where the script has worked it out from the batch's."""
    if isinstance(shape, (tuple, list)):
        return (*(_first_scaled(one, rows, own) for one in shape[:1]), *shape[1:])
    part = own[1] - own[0]
    known = isinstance(shape, int) and shape > 0 and rows and shape % rows == 0
    return shape // rows * part if known else shape


def rows_of_part(tensor: torch.Tensor, rows: int, own: Span) -> torch.Tensor:
    """The rows of a part, where each row of the batch may be several of the tensor's; any other tensor as it is."""
    if rows == 0 or tensor.shape[0] % rows or own == (0, rows):
        return tensor
    times = tensor.shape[0] // rows
    return tensor[own[0] * times : own[1] * times]


def _shape_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.shape_of if isinstance(tensor, StandIn) else tensor.detach().to("meta")


def _joined(found: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    if len(found) == 1:
        return found[0]
    if found[0].dim() == 0:
        if not found[0].is_floating_point():
            return torch.stack(list(found)).sum(0)
        return torch.stack([one * weight for one, weight in zip(found, weights, strict=True)]).sum(0)
    return torch.cat(list(found))


def _place_of(name: str, device: torch.device) -> Any:
    return device if name == "device" else name.removeprefix("is_") == device.type


def _autocast_now(device: torch.device) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)
