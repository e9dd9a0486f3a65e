"""Records which layer works on which device when, forward and backward, synchronising the devices at each end."""

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from scalewise.records.inspection import BusyRow, LayerRow
from scalewise.watch.inspection.tensor_places import (
    device_of,
    gpus_of,
    in_main_thread,
    own_parameters,
    storage_bytes,
    synchronize,
)

MOST_ROWS = 4000  # of one step
now_ns = time.perf_counter_ns

Broke = Callable[[str, Exception], None]


class _Call:
    """One call of a layer, forward and back; it keeps no tensor alive, as memory is watched, too."""

    __slots__ = ("_broke", "begin_ns", "device", "end_ns", "forward_ns", "gpus", "inside", "layer", "thread")

    def __init__(self, layer: str, parameters: list[torch.Tensor], broke: Broke) -> None:
        self.layer, self.device, self.gpus = layer, device_of(parameters[0]), gpus_of(parameters)
        self._broke = broke
        self.inside: _Call | None = None  # the call of another layer that this one is part of
        self.forward_ns = now_ns()
        self.begin_ns = self.end_ns = self.thread = 0  # of backward

    def begin(self, _: torch.Tensor) -> None:
        """Takes the time when the gradient of the call's output is there."""
        self.begin_ns, self.thread = self._moment_ns(), threading.get_ident()

    def end(self, _: torch.Tensor) -> None:
        """Takes the time when the gradient of a weight or of the input is there; the last one counts."""
        self.end_ns = self._moment_ns()

    def is_part_of(self, other: "_Call") -> bool:
        """Returns whether this call was made inside the other one."""
        call = self.inside
        while call is not None and call is not other:
            call = call.inside
        return call is other

    def _moment_ns(self) -> int:
        """The time now, with the GPUs synchronised; raises nothing, as autograd would pass it on to the script."""
        try:
            synchronize(self.gpus)
        except Exception as error:
            self._broke("timeline", error)
        return now_ns()


class _Thread(threading.local):
    """The calls of layers that are under way in one thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[nn.Module, _Call]] = []
        self.seen = 0  # layers since the step opened


class LayerTimes:
    """The layers in the order of their first call, and their busy times in chosen steps."""

    def __init__(self, broke: Broke) -> None:
        self._broke = broke
        self.timing = False
        self.step = 0
        self._origin_ns = 0
        self._names: dict[int, str] = {}
        self._owners: list[tuple[str, str]] = []  # name and kind of the modules that own parameters
        self._layers: dict[tuple[str, str], LayerRow] = {}
        self._elsewhere: dict[tuple[str, str], LayerRow] = {}  # called by other threads
        self._written: set[tuple[str, str]] = set()
        self._optimizer_ns = 0
        self._thread = _Thread()
        self._rows: list[BusyRow] = []
        self._calls: list[_Call] = []  # whose backward is still to come
        self._handles: list[Any] = []

    def begin_step(self, root: nn.Module, step: int, timing: bool) -> None:
        """Prepares for a step when the outermost module is about to be called."""
        if not self._names:
            named = [(name.removeprefix("module."), module) for name, module in root.named_modules()]
            self._names = {id(module): name for name, module in named}
            self._owners = [(name, type(module).__name__) for name, module in named if own_parameters(module)]
        self.step, self.timing = step, timing
        self._thread = _Thread()
        self._rows, self._calls = [], []
        self._origin_ns = now_ns()

    def before(self, module: nn.Module) -> None:
        """Begins a call of a module."""
        parameters = own_parameters(module)
        if parameters:
            call = _Call(self._name(module), parameters, self._broke)
            self._introduce(module, call, parameters)
            if self.timing:
                calls = self._thread.calls
                call.inside = calls[-1][1] if calls else None
                synchronize(call.gpus)
                call.forward_ns = now_ns()
                calls.append((module, call))

    def after(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Ends a call of a module."""
        calls = self._thread.calls
        if not self.timing or not any(one is module for one, _ in calls):
            return
        while calls:  # those above it have raised
            one, call = calls.pop()
            if one is module:
                break
        synchronize(call.gpus)
        self._add(call, "forward", call.forward_ns, now_ns())
        if torch.is_grad_enabled():
            self._follow(call, own_parameters(module), inputs, output)

    def after_backward(self) -> None:
        """Adds the rows of the backward pass, and removes all hooks from tensors."""
        calls, self._calls = self._calls, []
        calls = sorted((call for call in calls if call.end_ns > call.begin_ns > 0), key=lambda call: call.begin_ns)
        for place, call in enumerate(calls):
            # A weight that several calls share is done late, but a thread of autograd does one thing after the other.
            later = (one for one in calls[place + 1 :] if one.thread == call.thread and not one.is_part_of(call))
            following = next(later, None)
            end_ns = min(call.end_ns, following.begin_ns) if following else call.end_ns
            self._add(call, "backward", call.begin_ns, end_ns)
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def optimizer(self, work: Literal["begin", "end"], parameters: list[torch.Tensor]) -> None:
        """Notes the optimizer's work; among several devices it cannot be seen which one works, so that is left out."""
        devices = {device_of(one) for one in parameters}
        if not self.timing or len(devices) != 1:
            return
        synchronize(gpus_of(parameters))
        if work == "begin":
            self._optimizer_ns = now_ns()
        else:
            call = _Call("", parameters, self._broke)
            self._add(call, "optimizer", self._optimizer_ns, now_ns())

    def leave_out(self, own_ns: int) -> None:
        """Leaves out time between two layers that was ours, not the script's."""
        self._origin_ns += own_ns

    def new_layers(self) -> list[LayerRow]:
        """The layers that are not written yet."""
        others = sorted(self._elsewhere.items(), key=lambda item: item[1].device)
        rows = {**self._layers, **{key: row for key, row in others if key not in self._layers}}
        found = [row for key, row in rows.items() if key not in self._written]
        self._written |= rows.keys()
        return found

    def take_rows(self) -> list[BusyRow]:
        """The rows of the step, in order."""
        rows, self._rows = self._rows, []
        return sorted(rows, key=lambda row: row.begin_ns)

    def _name(self, module: nn.Module) -> str:
        """The name of a module; a replica is another object, known by its place in the order of calls."""
        place, self._thread.seen = self._thread.seen, self._thread.seen + 1
        name = self._names.get(id(module))
        if name is not None:
            return name or type(module).__name__
        kind = type(module).__name__
        known, known_kind = self._owners[place % len(self._owners)] if self._owners else ("", "")
        return known if known_kind == kind else f"{kind} {place}"

    def _introduce(self, module: nn.Module, call: _Call, parameters: list[torch.Tensor]) -> None:
        layers = self._layers if in_main_thread() else self._elsewhere
        if (call.layer, call.device) not in layers:
            kind = type(module).__name__
            layers[call.layer, call.device] = LayerRow(call.layer, kind, call.device, storage_bytes(parameters))

    def _add(self, call: _Call, phase: Literal["forward", "backward", "optimizer"], begin: int, end: int) -> None:
        if len(self._rows) < MOST_ROWS:
            origin = self._origin_ns
            self._rows.append(BusyRow(self.step, call.device, phase, call.layer, begin - origin, end - origin))

    def _follow(self, call: _Call, parameters: list[torch.Tensor], inputs: Any, output: Any) -> None:
        """Puts hooks on tensors, not on modules: those would put nodes of their own into the graph."""
        outputs = [one for one in tree_leaves(output) if isinstance(one, torch.Tensor) and one.requires_grad]
        ends = [one for one in parameters if one.requires_grad]
        if not ends:
            ends = [one for one in tree_leaves(inputs) if isinstance(one, torch.Tensor) and one.requires_grad]
        if outputs and ends:
            self._calls.append(call)
            self._handles += [outputs[0].register_hook(call.begin), *(one.register_hook(call.end) for one in ends)]
