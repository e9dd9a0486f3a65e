"""Finds the model that a script for one device trains, and sends its calls through what a strategy makes of it.

A strategy is a function that is given the trained model when it is first called, and returns what is to be called
instead. It may also divide a rank's share into micro-batches, or make the passes itself (a pipeline).
"""

import contextlib
import os
import re
import weakref
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import Optimizer

from scalewise.records.examination import AbstainedRow
from scalewise.watch.call_arguments import receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.examination.backward import reductions
from scalewise.watch.hooks.batch_rows import first_tensor, takes_time_first
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam, step_hooks
from scalewise.watch.strategy.row_by_row import check_row_by_row
from scalewise.watch.strategy.shares import TOO_FEW, LoaderShares, Span, rank_and_ranks, span
from scalewise.watch.strategy.stand_ins import (
    OwnRows,
    Recorded,
    StandIn,
    autocast_as,
    autocast_state,
    cut_rows,
    in_one_line,
    mapped,
    tensors_in_order,
)
from scalewise.watch.strategy.strategy_interface import CannotApply, Forward, ModelCall, PassByParts, Strategy, Trained
from scalewise.watch.wrappers import kind_of

_TELLING = {
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
}  # fmt: skip
OUT_OF_MEMORY = re.compile(r"allocate memory|out of memory|OutOfMemoryError|MemoryError")


class SingleDevice:
    """The hooks that turn a script for one device into one rank of several."""

    def __init__(self, recorder: Recorder, strategy: Strategy) -> None:
        self.recorder, self.strategy = recorder, strategy
        self.rank, self.ranks = rank_and_ranks()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        self._told = _hidden_ranks()
        self._guard = ChangeGuard(recorder, strategy.name)
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._applied: tuple[weakref.ref[nn.Module], Forward] | None = None
        self._inside = False
        self._came_through = False  # a call of the model under the strategy
        self._trains_in_training_mode = False  # so that a call in evaluation mode is an evaluation
        self._calls: list[ModelCall] = []
        self._under_way: Recorded | None = None
        self._own_rows: dict[int, OwnRows] = {}  # by rows of the batch
        self._likes: dict[Any, Any] = {}  # results of the model on inputs of these shapes, without values
        compares = recorder.spec is not None and recorder.spec.compared is not None
        self._loaders = LoaderShares(self._guard, self.refuse, self._evaluates, compares) if strategy.divides else None
        seam(Optimizer, "__init__").after(self._guard, self._optimizer_made)
        step_hooks.after(self._guard, self._stepped)
        self._loss_seen = False
        self._first_backward = seam(torch.autograd, "backward").before(self._guard, self._goes_backward)
        seam(dist, "init_process_group", also=[dist.distributed_c10d]).around(self._makes_group)
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
        os.environ.update(self._told)
        try:
            self._begin(module, args, kwargs)
        except CannotApply as reason:
            self.refuse(str(reason))
        finally:
            self._inside = False
            _hidden_ranks()
        seam(nn.Module, "__call__").leave(self._finding)
        return module(*args, **kwargs)

    def _makes_group(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not self._inside:
            self.refuse(
                "the script makes a process group itself: it is written for several ranks, which scalewise parity "
                "compares with one rank and scalewise run measures"
            )
        return call(*args, **kwargs)

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
        if kind_of(module) is not None:
            raise CannotApply(f"the script wraps its model in {type(module).__name__} itself")
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
        trained = Trained(module, optimizers, args, kwargs, device, self.rank, self.ranks, self._unwatched)
        self._device = device
        cut = self.strategy.divides and not self._fed
        if self.strategy.by_parts or (cut and _may_take_time_first(module)):
            self._like(module, args, kwargs)  # while the model is still whole
        if cut or self.strategy.by_parts:
            check_row_by_row(trained, found.shape[0])
        forward = self.strategy.apply(trained)
        self._applied = (weakref.ref(module), forward)
        self._route(module)

    def _evaluates(self) -> bool:
        """Tells whether what the model is given now is not to be learnt from: then it is not divided.

        Some scripts evaluate with gradients on. Those whose model trains in training mode and is in evaluation mode now
        are known by that.
        """
        model = self._applied[0]() if self._applied is not None else None
        if model is None or not torch.is_grad_enabled():
            return not torch.is_grad_enabled()
        self._trains_in_training_mode |= model.training
        return self._trains_in_training_mode and not model.training

    @property
    def _fed(self) -> bool:
        """Tells whether loaders deal out a rank's own rows, so that the model is called with these alone."""
        return self._loaders is not None and self._loaders.fed

    def _route(self, module: nn.Module) -> None:
        """Gives the model a class of its own, whose calls go through the strategy: others stay as fast as they were."""
        owner, base = self, type(module)

        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if owner._inside or not owner.recorder.on:
                return base.__call__(self, *args, **kwargs)
            if not owner._evaluates():
                return owner._train(self, args, kwargs)
            if owner.strategy.passes is not None:
                owner.refuse("the script evaluates its model between training steps, and a stage has a part of it")
            if owner.strategy.divides:
                return base.__call__(self, *args, **kwargs)
            owner._inside = True
            try:
                return owner._forward(*args, **kwargs)  # through the layers that are divided
            finally:
                owner._inside = False

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
            if self.strategy.by_parts:
                return self._recorded(module, args, kwargs)
            if self.strategy.divides and not self._fed:
                return self._on_own_rows(args, kwargs)
            result = self._forward(*args, **kwargs)
            self._came_through = True
            return result
        except CannotApply as reason:
            self.refuse(str(reason))
        except Exception as error:
            self._fails_divided(error)
            raise
        finally:
            self._inside = False

    def _fails_divided(self, error: Exception) -> None:
        """Ends the rank if the first call fails that one rank alone has come through: then the division is to blame."""
        if self._came_through or OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
            return
        how = "on a part of the rows of its batch" if self.strategy.divides else "with its layers divided"
        self.refuse(f"the model does not compute {how}: {in_one_line(error)}")

    @property
    def _forward(self) -> Forward:
        assert self._applied is not None
        return self._applied[1]

    def _on_own_rows(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rows = _rows(args, kwargs)
        share = self._own_rows.get(rows)
        if share is None:
            own = span(rows, self.rank, self.ranks)
            share = self._own_rows[rows] = OwnRows(rows, own, self._device, self.refuse)
        given, named = cut_rows((args, kwargs), rows, share.own)
        result = self._forward(*given, **named)
        self._came_through = True
        return mapped(result, share.stand_in)

    def _recorded(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rows, recorded = _rows(args, kwargs), self._under_way
        if recorded is None or recorded.over or recorded.rows != rows:
            recorded = self._under_way = Recorded(rows, self._device, self)
            self._calls.clear()
        outputs = recorded.outputs(self._like(module, args, kwargs))
        self._calls.append(ModelCall(args, kwargs, outputs, autocast_state(self._device)))
        return outputs

    def _like(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's result without values; the model is really called once for each shape of its inputs."""
        key = tuple((one.shape, one.dtype) for one in tensors_in_order((args, kwargs)))
        if key not in self._likes:
            if self.strategy.passes is not None and self._likes:  # the model is no longer whole
                raise CannotApply(f"a batch of {key[0][0][0]} came after others, and the shapes of a stage are fixed")
            alike = _as_it_was(module, self._device)
            with self._unwatched(), _time_first_refused(module, key, self._fed), alike, torch.no_grad():
                result = nn.Module.__call__(module, *args, **kwargs)
            self._likes[key] = mapped(result, lambda one: one.to("meta"))
        return self._likes[key]

    @contextlib.contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Lets the watcher pass over calls of modules that the script does not make."""
        was, self.recorder.on = self.recorder.on, False
        try:
            yield
        finally:
            self.recorder.on = was

    def _spans(self, rows: int) -> list[Span]:
        """The rows of each micro-batch of this rank."""
        begin, end = (0, rows) if self._fed or not self.strategy.divides else span(rows, self.rank, self.ranks)
        parts = self.strategy.micro_batches
        if end - begin < parts:
            self.refuse(f"{end - begin} sample(s) of a rank are too few for {parts} micro-batches")
        return [
            (begin + one, begin + other) for one, other in (span(end - begin, part, parts) for part in range(parts))
        ]

    # ---- the script goes backward

    def run(self, recorded: Recorded, loss: StandIn) -> None:
        """Makes the forward and backward passes of all parts; only the last one exchanges gradients."""
        if self.strategy.passes is not None:
            self._run_by_strategy(recorded, loss)
            return
        spans = self._spans(recorded.rows)
        parts, share = [], spans[-1][1] - spans[0][0]
        weights = [(end - begin) / share for begin, end in spans]
        for number, own in enumerate(spans):
            held = number < len(spans) - 1
            with self.strategy.hold_back(self._forward) if held else contextlib.nullcontext():
                values = self._part(recorded, own)
                self._look_at_loss(values[loss.number])
                (values[loss.number] * weights[number]).backward()
            parts.append({name: one.detach() for name, one in values.items()})
        recorded.finish(parts, spans, weights)

    def _run_by_strategy(self, recorded: Recorded, loss: StandIn) -> None:
        assert self.strategy.passes is not None
        one = PassByParts(recorded, loss, tuple(self._calls), self._look_at_loss)
        self._inside = True
        try:
            parts = self.strategy.passes(self._forward, one)
        except CannotApply as reason:
            self.refuse(str(reason))
        finally:
            self._inside = False
        spans = [span(recorded.rows, part, len(parts)) for part in range(len(parts))]
        recorded.finish(parts, spans, [1 / len(parts)] * len(parts))

    def _part(self, recorded: Recorded, own: Span) -> dict[int, torch.Tensor]:
        """Everything from the model's outputs to the loss, on some of the rows."""
        values: dict[int, torch.Tensor] = {}
        for call in self._calls:
            self._inside = True
            try:
                given = cut_rows((call.args, call.kwargs), recorded.rows, own)
                with autocast_as(self._device, call.autocast):
                    result = self._forward(*given[0], **given[1])
                self._came_through = True
            except Exception as error:
                self._fails_divided(error)
                raise
            finally:
                self._inside = False
            pairs = zip(tensors_in_order(call.outputs), tensors_in_order(result), strict=True)
            values.update((stands.number, real) for stands, real in pairs if isinstance(stands, StandIn))
        recorded.repeat(values, own)
        return values

    def _goes_backward(self, args: tuple[Any, ...], kwargs: Given) -> None:
        self._look_at_loss(args[0] if args else kwargs["tensors"])

    def _look_at_loss(self, loss: Any) -> None:
        """Looks at the first loss: averaged over ranks, the gradient of a sum is too short."""
        if self._loss_seen:
            return
        self._loss_seen = True
        seam(torch.autograd, "backward").leave(self._first_backward)
        averages = self.strategy.divides or self.strategy.by_parts
        if averages and isinstance(loss, torch.Tensor) and _is_sum(loss):
            over = f"ranks, its gradient would be {self.ranks} times shorter" if self.strategy.divides else (
                "micro-batches, its gradient would be several times shorter"
            )  # fmt: skip
            self.refuse(f"the loss is a sum over samples: averaged over {over} than that of one rank")

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._under_way = None


def _hidden_ranks() -> dict[str, str]:
    """Takes what tells of several ranks out of the environment, where scripts look for it; returns it."""
    found = {name: value for name, value in os.environ.items() if name in _TELLING or name.startswith("TORCHELASTIC_")}
    for name in found:
        del os.environ[name]
    return found


def _rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    found = first_tensor((args, kwargs), depth=5)
    return found.shape[0] if found is not None and found.dim() else 0


def _is_sum(loss: torch.Tensor) -> bool:
    """Tells whether all terms of the loss are sums over samples, and one at least is added as it is."""
    found = reductions([loss])
    sums = {one.node for one in found if one.kind == "sum"}
    waiting = [loss.grad_fn]
    while waiting and len(sums) == len(found):
        node = waiting.pop()
        if node in sums:
            return True
        if node is not None and node.name().startswith(("AddBackward", "SubBackward")):
            waiting += [child for child, _ in node.next_functions]
    return False


@contextlib.contextmanager
def _as_it_was(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Leaves buffers and generators as they were before a call that is made only to see the result's shape."""
    buffers = [(one, one.detach().clone()) for one in module.buffers()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
    with torch.no_grad():
        for one, before in buffers:
            one.copy_(before)


_TIME_FIRST = nn.RNNBase, nn.MultiheadAttention


def _may_take_time_first(module: nn.Module) -> bool:
    return any(isinstance(one, _TIME_FIRST) and not one.batch_first for one in module.modules())


@contextlib.contextmanager
def _time_first_refused(module: nn.Module, key: Any, fed: bool) -> Iterator[None]:
    """Raises CannotApply if the model takes time first, as its batch then lies along another dimension."""
    seen = []

    def look(layer: nn.Module, args: Any, kwargs: Any) -> None:
        if takes_time_first(layer, args, kwargs, key[0][0]):
            seen.append(layer)

    layers = [one for one in module.modules() if isinstance(one, _TIME_FIRST)]
    handles = [one.register_forward_pre_hook(look, with_kwargs=True) for one in layers]
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
