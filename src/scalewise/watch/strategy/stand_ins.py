"""Stands in for what a model returns, so that a script which has the whole batch computes on some of its rows.

A stand-in says the shape of the whole batch. What a script computes with it is computed on this rank's rows, and the
script's own tensors (targets, weights of samples) are cut to them; a single number, such as the loss, is a plain tensor
again. Where a rank's rows are divided further, `Recorded` notes the calls up to the loss instead, and repeats them on
each part when the script goes backward.
"""

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist

from scalewise.watch.strategy.shares import Span, rank_and_ranks, span

_SHAPES = {"size", "dim", "numel", "nelement", "__len__", "stride", "is_floating_point", "is_complex", "element_size"}
_ATTRIBUTES = {"shape", "ndim", "dtype", "itemsize", "nbytes", "layout"}
_PLACES = {"device", "is_cuda", "is_meta", "is_cpu"}
_READS = {
    "item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__index__", "__format__", "__repr__", "__array__",
    "__complex__", "is_nonzero", "nonzero", "__contains__",
}  # fmt: skip
NOT_ON_A_PART = "{name} in the script does not compute on a part of the rows: {error}"
_ROW_BY_ROW = {"__getitem__", "__iter__"}
_SHAPED = {"view", "reshape", "expand"}
_numbers = itertools.count()


class StandIn(torch.Tensor):
    """A stand-in for a tensor with the rows of the whole batch; every call of torch goes to its owner."""

    number: int
    owner: "Owner"
    shape_of: torch.Tensor  # a tensor without storage
    value: torch.Tensor | None  # on some of the rows; None: not computed yet

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answers what concerns the shape, and asks the owner for all else."""
        kwargs = kwargs or {}
        first = args[0] if args and type(args[0]) is StandIn else next(_stand_ins((args, kwargs)))
        name = getattr(func, "__name__", "")
        if name == "__get__":
            attribute = getattr(func.__self__, "__name__", "")
            if attribute in _PLACES:
                device = first.owner.device
                return device if attribute == "device" else attribute.removeprefix("is_") == device.type
            if attribute in _ATTRIBUTES:
                return _on_shapes(func, args, kwargs)
        elif name in _SHAPES:
            return _on_shapes(func, args, kwargs)
        return first.owner.called(func, name, args, kwargs)


class Owner(Protocol):
    """Decides what a call with a stand-in does."""

    @property
    def device(self) -> torch.device:
        """Returns the device of the values."""

    def called(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Makes the call, or notes it."""


def _made(shape_of: torch.Tensor, owner: Owner, learns: bool, value: torch.Tensor | None = None) -> StandIn:
    with torch._C.DisableTorchFunctionSubclass():
        made: StandIn = torch.Tensor._make_subclass(StandIn, shape_of, learns and shape_of.is_floating_point())
    made.number, made.owner, made.shape_of, made.value = next(_numbers), owner, shape_of, value
    return made


@dataclass(frozen=True)
class OwnRows:
    """The rows of the batch that this rank computes on: calls are made at once, on their values."""

    rows: int  # of the whole batch
    own: Span
    device: torch.device
    refuse: Callable[[str], Any] = field(compare=False)
    shapes: dict[Any, torch.Tensor] = field(default_factory=dict, compare=False)  # by shape and type of the value

    def stand_in(self, value: torch.Tensor) -> torch.Tensor:
        """Makes a stand-in for a value on these rows; a single number stays as it is."""
        if not value.dim():
            return value
        given = value.shape, value.dtype
        shape = self.shapes.get(given)
        if shape is None:
            if len(self.shapes) >= _MOST_KNOWN:
                self.shapes.clear()
            length, part = given[0][0], self.own[1] - self.own[0]
            whole = length // part * self.rows if part and length % part == 0 else length
            shape = self.shapes[given] = torch.empty((whole, *given[0][1:]), dtype=value.dtype, device="meta")
        return _made(shape, self, value.requires_grad, value)

    def called(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Makes a call on the values; what it returns has these rows, too. What is read is of all ranks' rows."""
        if name in _READS and isinstance(args[0], StandIn) and args[0].shape_of.dim():
            return func(self._of_all_ranks(_value_of(args[0]).detach()), *args[1:], **kwargs)
        if name in _ROW_BY_ROW and isinstance(args[0], StandIn) and _picks_rows(args):
            if args[0].requires_grad:
                self.refuse("the script picks rows of what the model returns by their numbers in the whole batch")
            return func(self._of_all_ranks(_value_of(args[0]).detach()), *args[1:], **kwargs)
        args, kwargs = replaced(name, (args, kwargs), self.rows, self.own, _value_of)
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            self.refuse(NOT_ON_A_PART.format(name=name, error=in_one_line(error)))
            raise
        if isinstance(result, torch.Tensor):
            return self.stand_in(result)
        return mapped(result, self.stand_in) if name not in _READS else result

    def _of_all_ranks(self, value: torch.Tensor) -> torch.Tensor:
        """The rows of all ranks, which come to the same place: each of them runs the whole script."""
        rank, ranks = rank_and_ranks()
        part = self.own[1] - self.own[0]
        if value.shape[0] % part or (self.own != span(self.rows, rank, ranks)):
            return value
        times = value.shape[0] // part
        spans = [span(self.rows, one, ranks) for one in range(ranks)]
        most = max(end - begin for begin, end in spans) * times
        own = torch.cat([value, value.new_zeros(most - value.shape[0], *value.shape[1:])])
        everyone = [torch.empty_like(own) for _ in spans]
        dist.all_gather(everyone, own.contiguous())
        cut = zip(everyone, spans, strict=True)
        return torch.cat([one[: (end - begin) * times] for one, (begin, end) in cut])


def _picks_rows(args: Any) -> bool:
    """Tells whether rows of a batch are taken by their numbers; a mask of the batch has the rows of a part, too."""
    stands, index = args[0], args[1] if len(args) > 1 else 0
    first = index[0] if isinstance(index, tuple) and index else index
    if not stands.shape_of.dim() or stands.value is None or stands.shape_of.shape[0] == stands.value.shape[0]:
        return False
    if isinstance(first, torch.Tensor):
        return first.dtype is not torch.bool
    return not (first is None or first is Ellipsis or first == slice(None))


def in_one_line(error: Exception) -> str:
    """The type of an error and the first sentence of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].partition('. ')[0][:200]}" if lines else type(error).__name__


def _value_of(one: StandIn) -> torch.Tensor:
    if one.value is None:
        raise RuntimeError("an output of another forward pass is used than of the one under way")
    return one.value


class Passes(Protocol):
    """Makes the real passes of a strategy."""

    def run(self, recorded: "Recorded", loss: StandIn) -> None:
        """Makes the forward and backward passes on this loss, and ends with `Recorded.finish`."""

    def refuse(self, reason: str) -> Any:
        """Ends the rank, as the strategy cannot be applied."""


@dataclass
class _Call:
    func: Any
    name: str
    args: Any
    kwargs: Any
    grad: bool
    autocast: tuple[bool, torch.dtype]
    results: list[tuple[int, int]] = field(default_factory=list)  # place among the result's tensors, number


class Recorded:
    """The calls between a forward pass of the model, or several, and the loss."""

    def __init__(self, rows: int, device: torch.device, passes: Passes) -> None:
        self.rows = rows
        self.device = device
        self.over = False
        self._passes = passes
        self._calls: list[_Call] = []
        self._alive: weakref.WeakValueDictionary[int, StandIn] = weakref.WeakValueDictionary()

    def outputs(self, like: Any) -> Any:
        """Makes stand-ins for a model's result, given as tensors without storage; what is no tensor stays."""
        return mapped(like, lambda one: self._stand_in(one, True))

    def called(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Notes a call, and returns stand-ins for its result."""
        if name == "backward":
            return self._backward(args, kwargs)
        if name in ("__repr__", "__format__"):
            return "a tensor that is not computed yet"
        if name in _READS:
            self._passes.refuse("the script reads its loss or an output before its backward pass, when only some of "
                                "the micro-batches could have been computed")  # fmt: skip
        shown = {id(one.shape_of): one for one in _stand_ins((args, kwargs))}
        result = _known_result(func, args, kwargs, shown)
        call = _Call(func, name, args, kwargs, torch.is_grad_enabled(), autocast_state(self.device))
        learns = call.grad and name != "detach"
        places = itertools.count()

        def note(leaf: torch.Tensor) -> torch.Tensor:
            stands = shown.get(id(leaf)) or self._stand_in(leaf, learns)
            call.results.append((next(places), stands.number))
            return stands

        noted = mapped(result, note)
        if call.results:
            self._calls.append(call)
        return noted

    def repeat(self, values: dict[int, torch.Tensor], own: Span) -> None:
        """Repeats the noted calls on a part of the rows; `values` has the outputs by number and takes all results."""

        def value(one: StandIn) -> torch.Tensor:
            if one.number not in values:
                self._passes.refuse("the script uses an output of another forward pass than the one under way")
            return values[one.number]

        for call in self._calls:
            args, kwargs = replaced(call.name, (call.args, call.kwargs), self.rows, own, value)
            with _grad_as(call.grad), autocast_as(self.device, call.autocast):
                try:
                    leaves = tensors_in_order(call.func(*args, **kwargs))
                except (RuntimeError, IndexError, ValueError) as error:
                    self._passes.refuse(NOT_ON_A_PART.format(name=call.name, error=in_one_line(error)))
                    raise
            values.update((number, leaves[index]) for index, number in call.results)

    def finish(self, parts: Sequence[dict[int, torch.Tensor]], spans: Sequence[Span], weights: Sequence[float]) -> None:
        """Gives the stand-ins that the script still has their values, joined over the parts."""
        own = OwnRows(self.rows, (spans[0][0], spans[-1][1]), self.device, self._passes.refuse)
        self.over = True
        self._calls.clear()  # and with them what the script has let go of
        for number, one in list(self._alive.items()):
            found = [part[number].detach() for part in parts if number in part]
            if len(found) == len(parts):
                one.value, one.owner = _joined(found, weights), own
            else:  # another rank has it: what the script makes of it here shows that it is not known
                blank = float("nan") if one.shape_of.is_floating_point() else 0
                one.value, one.owner = torch.full_like(one.shape_of, blank, device=self.device), own

    def _stand_in(self, shape_of: torch.Tensor, learns: bool) -> StandIn:
        made = _made(shape_of, self, learns)
        self._alive[made.number] = made
        return made

    def _backward(self, args: Any, kwargs: Any) -> None:
        more = (*args[1:], *kwargs.values())
        if self.over:
            self._passes.refuse("the script goes backward more than once through one forward pass")
        if any(one is not None and one is not False for one in more):
            self._passes.refuse("the script gives its backward pass more than a loss")
        self._passes.run(self, args[0])


def replaced(name: str, given: Any, rows: int, own: Span, value: Callable[[StandIn], torch.Tensor]) -> Any:
    """The arguments with values for stand-ins, and with these rows of whatever has the batch's."""
    lengths = [
        one.shape_of.shape[0] for one in tensors_in_order(given) if isinstance(one, StandIn) and one.shape_of.dim()
    ]

    def exchange(one: torch.Tensor) -> torch.Tensor:
        if isinstance(one, StandIn):
            return value(one)
        cut = one.dim() and one.shape[0] in lengths and not one.requires_grad
        return rows_of_part(one, rows, own) if cut else one

    args, kwargs = mapped(given, exchange)
    if name in _SHAPED and len(args) > 1:
        args = (args[0], _first_scaled(args[1], rows, own), *args[2:])
    return args, kwargs


def rows_of_part(tensor: torch.Tensor, rows: int, own: Span) -> torch.Tensor:
    """The rows of a part, where each row of the batch may be several of the tensor's; any other tensor as it is."""
    if not rows or tensor.shape[0] % rows or own == (0, rows):
        return tensor
    times = tensor.shape[0] // rows
    return tensor[own[0] * times : own[1] * times]


def cut_rows(given: Any, rows: int, own: Span) -> Any:
    """The arguments of a model, with these rows of every tensor that has as many as the batch."""
    return mapped(given, lambda one: one[own[0] : own[1]] if one.dim() and one.shape[0] == rows else one)


def mapped(value: Any, exchange: Callable[[torch.Tensor], Any]) -> Any:
    """The same value with other tensors in its tuples, lists, dictionaries and objects that are dictionaries."""
    if isinstance(value, torch.Tensor):
        return exchange(value)
    if type(value) in _LEAVES:
        return value
    if isinstance(value, (tuple, list)):
        inner = [one if type(one) in _LEAVES else mapped(one, exchange) for one in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    if isinstance(value, dict):
        found = {key: one if type(one) in _LEAVES else mapped(one, exchange) for key, one in value.items()}
        return found if type(value) is dict else type(value)(**found)
    return value


_LEAVES = {type(None), bool, int, float, str}  # most arguments of a call; looked at without a call of their own


def tensors_in_order(value: Any, found: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
    """Collects the tensors in a value, in the order in which `mapped` meets them."""
    found = [] if found is None else found
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            if type(one) not in _LEAVES:
                tensors_in_order(one, found)
    return found


def _stand_ins(value: Any) -> Iterator[StandIn]:
    return (one for one in tensors_in_order(value) if isinstance(one, StandIn))


_results: dict[Any, Any] = {}  # without storage, of calls on tensors of these shapes
_MOST_KNOWN = 4096


def _known_result(func: Any, args: Any, kwargs: Any, shown: Any) -> Any:
    """The result of a call on shapes; it is computed once for equal shapes, as a loss is the same in every step."""
    key = _key_of(func, (args, kwargs))
    if key is None:
        return _on_shapes(func, args, kwargs)
    if key not in _results:
        result = _on_shapes(func, args, kwargs)
        if any(id(one) in shown for one in tensors_in_order(result)) or len(_results) >= _MOST_KNOWN:
            return result  # it is one of the arguments, changed in place
        _results[key] = result
    with torch._C.DisableTorchFunctionSubclass():
        return mapped(_results[key], lambda one: one.detach())


def _key_of(func: Any, given: Any) -> Any:
    """Collects what decides about the shapes of a result; None if it cannot be compared."""
    found: list[Any] = [func]

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            shape = value.shape_of if isinstance(value, StandIn) else value
            found.append((tuple(shape.shape), shape.dtype, shape.layout))
        elif isinstance(value, (tuple, list)):
            found.append(len(value))
            for one in value:
                add(one)
        elif isinstance(value, dict):
            found.append(tuple(value))
            for one in value.values():
                add(one)
        else:
            found.append((type(value), value))

    add(given)
    key = tuple(found)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _grad_as(enabled: bool) -> Any:
    """A context in which gradients are noted if they were and are."""
    return _UNCHANGED if enabled or not torch.is_grad_enabled() else torch.no_grad()


def _on_shapes(func: Any, args: Any, kwargs: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        shapes = mapped((args, kwargs), _shape_of)
        return func(*shapes[0], **shapes[1])


def _shape_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.shape_of if isinstance(tensor, StandIn) else tensor.detach().to("meta")


def _first_scaled(shape: Any, rows: int, own: Span) -> Any:
    """The first length of a shape, for a part of the rows, where the script has worked it out from the batch's."""
    if isinstance(shape, (tuple, list)):
        return (*(_first_scaled(one, rows, own) for one in shape[:1]), *shape[1:])
    part = own[1] - own[0]
    known = isinstance(shape, int) and shape > 0 and rows and shape % rows == 0
    return shape // rows * part if known else shape


def _joined(found: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    if len(found) == 1:
        return found[0]
    if found[0].dim():
        return torch.cat(list(found))
    if not found[0].is_floating_point():
        return torch.stack(list(found)).sum(0)
    return torch.stack([one * weight for one, weight in zip(found, weights, strict=True)]).sum(0)


def autocast_state(device: torch.device) -> tuple[bool, torch.dtype]:
    """The state of autocast, to compute later as would be computed now."""
    return torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)


_UNCHANGED = contextlib.nullcontext()


def autocast_as(device: torch.device, state: tuple[bool, torch.dtype]) -> Any:
    """A context in which autocast is as it was."""
    if state == autocast_state(device):
        return _UNCHANGED
    return torch.autocast(device.type, dtype=state[1], enabled=state[0])
