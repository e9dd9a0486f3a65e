"""Finds the model that a script for one device trains, and sends its calls through what a strategy makes of it.

A strategy is a function that is given the trained model when it is first called, and returns what is to be called
instead. It may also divide a rank's share into micro-batches, or make the passes itself (a pipeline).
"""

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils import _pytree as pytree

from scalewise.records.examination import AbstainedRow
from scalewise.watch.batch_rows import first_tensor
from scalewise.watch.call_arguments import receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.hooks.axis import takes_time_first
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam, step_hooks
from scalewise.watch.strategy.deferred import Recorded, StandIn, rows_of_part
from scalewise.watch.strategy.shares import TOO_FEW, LoaderShares, Span, rank_and_ranks, span
from scalewise.watch.wrappers import kind_of

Forward = Any  # what is called in place of the model: a module, most often


@dataclass(frozen=True)
class Trained:
    """The model that a script trains, at its first call, with everything a strategy may need to know."""

    model: nn.Module
    optimizers: tuple[Optimizer, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    device: torch.device
    rank: int
    ranks: int


@dataclass(frozen=True)
class Strategy:
    """A way to train on several ranks."""

    name: str  # of the change
    apply: Callable[[Trained], Forward]  # raises CannotApply
    divides: bool = True  # each rank takes its share of the batch; if not, every rank takes all of it
    micro_batches: int = 1  # into which a share is divided further
    hold_back: Callable[[Forward], Any] = lambda forward: contextlib.nullcontext()  # around all but the last of them


class CannotApply(Exception):
    """Raised where a strategy does not fit a script; the text is the end of a sentence with "because"."""


class SingleDevice:
    """The hooks that turn a script for one device into one rank of several."""

    def __init__(self, recorder: Recorder, strategy: Strategy) -> None:
        self.recorder, self.strategy = recorder, strategy
        self.rank, self.ranks = rank_and_ranks()
        self._guard = ChangeGuard(recorder, strategy.name)
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._applied: tuple[weakref.ref[nn.Module], Forward] | None = None
        self._inside = False
        self._calls: list[tuple[Recorded, tuple[Any, ...], dict[str, Any], Any, Any]] = []
        self._under_way: Recorded | None = None
        self._likes: dict[Any, Any] = {}  # results of the model on inputs of these shapes, without values
        self._sums: bool | None = None  # whether the loss is a sum over samples; None: not known
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        self._loaders = LoaderShares(self._guard, self.refuse) if strategy.divides else None
        seam(Optimizer, "__init__").after(self._guard, self._optimizer_made)
        step_hooks.after(self._guard, self._stepped)
        self._finding = seam(nn.Module, "__call__").around(self._called)

    def refuse(self, reason: str) -> Any:
        """Ends this rank, and every other rank at the same place, as the strategy cannot be applied."""
        self.recorder.journal.row(AbstainedRow(self.strategy.name, reason))
        self.recorder.journal.flush()
        os._exit(0)

    # ---- the model is looked for

    def _optimizer_made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        self._optimizers.add(receiver(args, kwargs))

    def _called(self, call: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Stands around every module until one is called that the optimizer trains."""
        if self._inside or not self.recorder.on or not torch.is_grad_enabled() or not self._trains(module):
            return call(module, *args, **kwargs)
        self._inside = True
        try:
            self._begin(module, args, kwargs)
        except CannotApply as reason:
            self.refuse(str(reason))
        finally:
            self._inside = False
        seam(nn.Module, "__call__").leave(self._finding)
        return module(*args, **kwargs)

    def _trains(self, module: nn.Module) -> bool:
        held = {
            id(one) for optimizer in self._optimizers for group in optimizer.param_groups for one in group["params"]
        }
        return any(id(one) in held for one in module.parameters())

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        optimizers = tuple(one for one in self._optimizers if one.param_groups)
        own = {id(one) for one in module.parameters()}
        others = [
            one for two in optimizers for group in two.param_groups for one in group["params"] if id(one) not in own
        ]
        if dist.is_initialized() or kind_of(module) is not None:
            raise CannotApply(
                "the script makes its own process group or wraps its model: it is written for several ranks"
            )
        if others:
            raise CannotApply(
                f"the script trains more than the module that it calls ({type(module).__name__}): "
                f"{len(others)} parameters of its optimizers belong to others"
            )
        found = first_tensor((args, kwargs), depth=5)
        if found is None or not found.dim():
            raise CannotApply("the model is called without a batch: its first argument is no tensor with rows")
        if not (self._loaders and self._loaders.fed) and found.shape[0] < self.ranks and self.strategy.divides:
            raise CannotApply(TOO_FEW.format(rows=found.shape[0], ranks=self.ranks))
        device = next(module.parameters()).device
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        trained = Trained(module, optimizers, args, kwargs, device, self.rank, self.ranks)
        self._device = device
        if self._defers:
            self._like(module, args, kwargs)  # while the model is still whole
        forward = self.strategy.apply(trained)
        self._applied = (weakref.ref(module), forward)
        self._route(module)

    @property
    def _defers(self) -> bool:
        """Tells whether passes are made part by part when the script goes backward."""
        fed = self._loaders is not None and self._loaders.fed
        return self.strategy.micro_batches > 1 or (self.strategy.divides and not fed)

    def _route(self, module: nn.Module) -> None:
        """Gives the model a class of its own, whose calls go through the strategy: others stay as fast as they were."""
        owner, base = self, type(module)

        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if owner._inside or not torch.is_grad_enabled() or not owner.recorder.on:
                return base.__call__(self, *args, **kwargs)
            return owner._train(self, args, kwargs)

        def __reduce_ex__(self: nn.Module, protocol: Any) -> Any:
            self.__class__ = base  # a copy, or a file that holds the model, has the script's own class
            try:
                return base.__reduce_ex__(self, protocol)
            finally:
                self.__class__ = routed

        members = {"__call__": __call__, "__reduce_ex__": __reduce_ex__, "__module__": base.__module__}
        routed = type(base.__name__, (base,), members)
        try:
            module.__class__ = routed
        except TypeError:
            raise CannotApply(f"calls of a {base.__name__} cannot be led elsewhere: its class is fixed") from None

    # ---- the model is called

    def _train(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.recorder.intervene(self.strategy.name)
        self._inside = True
        try:
            if not self._defers:
                return self._forward(*args, **kwargs)
            return self._deferred(module, args, kwargs)
        except CannotApply as reason:
            self.refuse(str(reason))
        finally:
            self._inside = False

    @property
    def _forward(self) -> Forward:
        assert self._applied is not None
        return self._applied[1]

    def _deferred(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = first_tensor((args, kwargs), depth=5)
        rows = found.shape[0] if found is not None and found.dim() else 0
        recorded = self._under_way
        if recorded is None or recorded.over or recorded.rows != rows:
            recorded = self._under_way = Recorded(rows, self._device, self)
            self._calls.clear()
        outputs = recorded.outputs(self._like(module, args, kwargs))
        state = torch.is_autocast_enabled(self._device.type), torch.get_autocast_dtype(self._device.type)
        self._calls.append((recorded, args, kwargs, outputs, state))
        return outputs

    def _like(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's result without values; the model is really called once for each shape of its inputs."""
        leaves, form = pytree.tree_flatten((args, kwargs))
        key = (str(form), *((one.shape, one.dtype) if isinstance(one, torch.Tensor) else repr(one) for one in leaves))
        if key not in self._likes:
            with _time_first_refused(module, leaves, self._fed), _as_it_was(module, self._device), torch.no_grad():
                result = nn.Module.__call__(module, *args, **kwargs)
            self._likes[key] = pytree.tree_map_only(torch.Tensor, lambda one: one.to("meta"), result)
        return self._likes[key]

    @property
    def _fed(self) -> bool:
        return self._loaders is not None and self._loaders.fed

    def _spans(self, rows: int) -> list[Span]:
        """The rows of each micro-batch of this rank."""
        begin, end = (0, rows) if self._fed or not self.strategy.divides else span(rows, self.rank, self.ranks)
        parts = self.strategy.micro_batches
        if end - begin < parts:
            self.refuse(f"the {end - begin} samples of a rank are too few for {parts} micro-batches")
        return [
            (begin + one, begin + other) for one, other in (span(end - begin, part, parts) for part in range(parts))
        ]

    # ---- the script goes backward

    def run(self, recorded: Recorded, loss: StandIn) -> None:
        """Makes the forward and backward passes of all parts; only the last one exchanges gradients."""
        spans = self._spans(recorded.rows)
        parts, share = [], spans[-1][1] - spans[0][0]
        weights = [(end - begin) / share for begin, end in spans]
        for number, own in enumerate(spans):
            held = number < len(spans) - 1
            with self.strategy.hold_back(self._forward) if held else contextlib.nullcontext():
                values = self._part(recorded, own)
                real = values[loss.number]
                if self._sums is None:
                    self._sums = self._adds_up(recorded, loss, values, own)
                (real * weights[number] if len(spans) > 1 else real).backward()
            parts.append({name: one.detach() for name, one in values.items()})
        recorded.finish(parts, spans, weights)

    def early(self, recorded: Recorded, values: dict[int, torch.Tensor]) -> Span:
        """Makes the forward pass of the only part."""
        spans = self._spans(recorded.rows)
        if len(spans) > 1:
            self.refuse(
                "the script reads its loss or an output before its backward pass, when only the first micro-batches "
                "could have been computed"
            )
        values.update(self._part(recorded, spans[0]))
        return spans[0]

    def _part(self, recorded: Recorded, own: Span) -> dict[int, torch.Tensor]:
        """Everything from the model's outputs to the loss, on some of the rows."""
        values: dict[int, torch.Tensor] = {}
        for of, args, kwargs, outputs, (enabled, dtype) in self._calls:
            if of is not recorded:
                continue

            def part(one: torch.Tensor) -> torch.Tensor:
                divides = one.dim() and one.shape[0] == recorded.rows
                return rows_of_part(one, recorded.rows, own) if divides else one

            given = pytree.tree_map_only(torch.Tensor, part, (args, kwargs))
            self._inside = True
            try:
                with torch.autocast(self._device.type, dtype=dtype, enabled=enabled):
                    result = self._forward(*given[0], **given[1])
            finally:
                self._inside = False
            for stands, real in zip(pytree.tree_leaves(outputs), pytree.tree_leaves(result), strict=True):
                if isinstance(stands, StandIn):
                    values[stands.number] = real
        recorded.repeat(values, own)
        return values

    def _adds_up(self, recorded: Recorded, loss: StandIn, values: dict[int, torch.Tensor], own: Span) -> bool:
        """Tells whether the loss of a part is the sum, not the mean, of the losses of its halves; refuses a sum."""
        begin, end = own
        middle = (begin + end) // 2
        if middle in (begin, end):
            return False
        outputs = {stands.number for of, _, _, given, _ in self._calls for stands in pytree.tree_leaves(given)
                   if of is recorded and isinstance(stands, StandIn)}  # fmt: skip
        if loss.number in outputs:
            return False  # the model computes its loss itself
        halves = []
        for half in ((begin, middle), (middle, end)):
            some = {number: one.detach() for number, one in values.items() if number in outputs}
            rows = (half[0] - begin, half[1] - begin)
            cut = {number: rows_of_part(one, end - begin, rows) if one.dim() else one for number, one in some.items()}
            with torch.no_grad():
                recorded.repeat(cut, half)
            halves.append(float(cut[loss.number]))
        whole, apart = float(values[loss.number].detach()), abs(sum(halves)) / 2
        summed = apart > 0 and abs(whole - sum(halves)) < 1e-3 * abs(whole)
        if summed and self.strategy.divides:
            self.refuse(
                "the loss is a sum over samples: averaged over ranks, its gradient would be "
                f"{self.ranks} times shorter than that of one rank"
            )
        return summed

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._under_way = None


@contextlib.contextmanager
def _as_it_was(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Leaves buffers and generators as they were before a call that is made only to see the result's shape."""
    buffers = [(one, one.detach().clone()) for one in module.buffers()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
    with torch.no_grad():
        for one, before in buffers:
            one.copy_(before)


@contextlib.contextmanager
def _time_first_refused(module: nn.Module, leaves: list[Any], fed: bool) -> Iterator[None]:
    """Raises CannotApply if the model takes time first, as its batch then lies along another dimension."""
    given = next((one.shape for one in leaves if isinstance(one, torch.Tensor)), torch.Size())
    seen = []

    def look(layer: nn.Module, args: Any, kwargs: Any) -> None:
        if takes_time_first(layer, args, kwargs, given):
            seen.append(layer)

    kinds = (nn.RNNBase, nn.MultiheadAttention)
    handles = [
        layer.register_forward_pre_hook(look, with_kwargs=True)
        for layer in module.modules()
        if isinstance(layer, kinds)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if seen:
        raise CannotApply(
            "the model takes time first and the batch second, and no DataLoader deals out its samples"
            if not fed
            else "the model takes time first and the batch second, which cannot be divided into micro-batches"
        )
