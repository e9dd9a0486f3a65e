"""Looks at what is there after steps 1, 2, 4, 8, ...: sums of the parameters, and losses that the script still holds.

Ranks that train one model together must agree on the sums. A loss that is kept keeps the graph that it was made by.
"""

import atexit
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from scalewise.records.examination import ParameterSumsRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.backward import reduction_node
from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import parameters_of
from scalewise.watch.examination.tensors import ordinary, quietly
from scalewise.watch.examination.wrappers import Wrappers, wrappers_of
from scalewise.watch.probe_torch import heap_bytes, world_size

MOST_PARAMETERS = 1000  # of one wrapper
MOST_FOLLOWED = 20_000
ALL_PASSES, ONE_IN = 64, 8  # losses of the first backward passes are all followed, then one in so many
_KEY = "scalewise"


def install(notebook: Notebook) -> None:
    """Registers looks at what backward is called on, after each step, and at the end.

    On a device, sums are computed there and read when done, without waiting.
    """
    loop = loop_of(notebook)
    sums, kept = _Sums(loop, wrappers_of(notebook)), _Kept(loop)
    loop.on_backward.append(kept.follow)
    loop.after_step += [sums.look, kept.look]
    for at_end in (sums.at_end, kept.at_end):
        atexit.register(at_end)


class _Sums:
    """The sums that are on their way from a device to the notebook."""

    def __init__(self, loop: Loop, wrappers: Wrappers) -> None:
        self.loop = loop
        self._wrappers = wrappers
        self._waiting: list[tuple[int, int, list[str], torch.Tensor, Any]] = []

    def look(self, step: int) -> None:
        """Writes sums that have arrived, and starts new ones after sampled steps."""
        if self._waiting:
            self._tell(wait=False)
        if sampled(step) and world_size() > 1:
            for wrapper, parameters in self._trained():
                self._sum(step, wrapper, parameters)
            self._tell(wait=False)

    def at_end(self) -> None:
        """Writes the sums that are still on a device, before the process exits."""
        if self.loop.notebook.on:
            try:
                self._tell(wait=True)
            except Exception as error:
                self.loop.notebook.broke("parameters", error)

    def _trained(self) -> Iterable[tuple[int, dict[str, torch.Tensor]]]:
        """The parameters of each DDP module; if nothing is wrapped, those of the optimizers."""
        if not self._wrappers.any():
            groups = (parameters_of(optimizer) for _, optimizer in self.loop.optimizers())
            found = {f"{index}": one for index, one in enumerate(one for group in groups for one in group)}
            yield NOWHERE, found
        for index, wrapper in self._wrappers.reduced():
            ignored = getattr(wrapper, "parameters_to_ignore", ())
            yield index, {name: one for name, one in wrapper.module.named_parameters() if name not in ignored}

    def _sum(self, step: int, wrapper: int, named: dict[str, torch.Tensor]) -> None:
        real = {name: one for name, one in named.items() if one.requires_grad and one.is_floating_point()}
        mine = {name: one for name, one in real.items() if ordinary(one) and one.numel()}
        names = list(mine)[:MOST_PARAMETERS]
        by_device: dict[torch.device, list[str]] = {}
        for name in names:
            by_device.setdefault(mine[name].device, []).append(name)
        with quietly():
            for device, group in by_device.items():
                tensors = [mine[name].detach() for name in group]
                if device.type != "meta":
                    self._start(step, wrapper, group, tensors)

    def _start(self, step: int, wrapper: int, names: list[str], tensors: list[torch.Tensor]) -> None:
        double = torch.float64
        numbers = [one.sum(dtype=double) for one in tensors]
        numbers += [torch.linalg.vector_norm(one, dtype=double) for one in tensors]
        both, done = torch.stack(numbers), None
        if both.device.type == "cuda":
            host = torch.empty(both.shape, dtype=double, pin_memory=True)
            host.copy_(both, non_blocking=True)
            both, done = host, torch.cuda.Event()
            done.record(torch.cuda.current_stream(tensors[0].device))
        self._waiting.append((step, wrapper, names, both, done))

    def _tell(self, wait: bool) -> None:
        """Writes the sums that have arrived; the others wait."""
        late = []
        for step, wrapper, names, both, done in self._waiting:
            if done is not None and wait:
                done.synchronize()
            if done is not None and not done.query():
                late.append((step, wrapper, names, both, done))
                continue
            numbers = both.numpy().tolist()
            sums = {name: (numbers[at], numbers[at + len(names)]) for at, name in enumerate(names)}
            self.loop.notebook.row(ParameterSumsRow(step, wrapper, sums))
        self._waiting = late


class _Sign:
    """A marker that lives as long as the node of a graph that it was put into."""

    __slots__ = ("__weakref__",)


class _Kept:
    """The weak references to every loss followed, and to the node that made it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._losses: set[weakref.ref[torch.Tensor]] = set()
        self._graphs: set[weakref.ref[_Sign]] = set()
        self._passes = self._seen = self._most = 0

    def follow(self, tensors: list[torch.Tensor]) -> None:
        """Follows the losses of a backward pass; a node's own dictionary keeps the marker as long as the node."""
        self._passes += 1
        if self._passes > ALL_PASSES and self._passes % ONE_IN:
            return
        for tensor in tensors:
            self._seen += 1
            if tensor.grad_fn is not None and len(self._graphs) < MOST_FOLLOWED:
                sign = reduction_node(tensor).metadata.setdefault(_KEY, _Sign())
                self._graphs.add(weakref.ref(sign, self._graphs.discard))
                self._losses.add(weakref.ref(tensor, self._losses.discard))

    def look(self, step: int) -> None:
        """Counts what is held after a step, and notes it after steps 1, 2, 4, ..."""
        self._most = max(self._most, len(self._graphs))
        if sampled(step):
            self._note(step)

    def at_end(self) -> None:
        """Notes what happened since the last note; the script's own variables may be gone by now."""
        if self._loop.notebook.on and self._most:
            self._note(self._loop.windows)

    def _note(self, step: int) -> None:
        values = (step, len(self._losses), self._seen, self._most, _held_bytes())
        self._loop.notebook.note("kept", *values, place=NOWHERE)
        self._most = 0


def _held_bytes() -> int | None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))
    return heap_bytes()
