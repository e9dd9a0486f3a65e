"""Notes what a DDP wrapper does: its buckets, the parameters no gradient reaches, the buffers that really change."""

import atexit
import functools
import weakref
from typing import Any

import torch

from scalewise.records.examination import WrapperUseRow
from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.tensors import number, ordinary, quietly
from scalewise.watch.examination.wrappers import wrappers_of

WINDOWS_LOOKED_AT = 48  # for parameters without gradient
BUFFER_CHECKS = 12


def install(notebook: Notebook) -> None:
    """Wraps the forward pass of DDP, and registers looks after each step and at the end."""
    if not torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel as DDP

    loop, wrappers = loop_of(notebook), wrappers_of(notebook)
    uses: dict[int, _Use] = {}
    original: Any = DDP.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not notebook.on:
            return original(self, *args, **kwargs)
        use = None
        try:
            index = wrappers.index_of(self)
            use = uses.get(index)
            if use is None and _trains(self):
                use = uses[index] = _Use(loop, index, self)
        except Exception as error:
            notebook.broke("DistributedDataParallel", error)
        result = original(self, *args, **kwargs)
        try:
            if use is not None:
                use.after_forward(self)
        except Exception as error:
            notebook.broke("DistributedDataParallel", error)
        return result

    DDP.forward = forward  # type: ignore[method-assign]

    def after_step(step: int) -> None:
        for use in uses.values():
            use.after_step(step)

    def at_end() -> None:
        for use in uses.values() if notebook.on else ():
            use.tell(loop.windows)

    loop.after_step.append(after_step)
    loop.unreached = lambda: {name for use in uses.values() for name in use.unreached()}
    atexit.register(at_end)


def _trains(module: Any) -> bool:
    return bool(module.training and torch.is_grad_enabled() and not torch.is_inference_mode_enabled())


class _Use:
    """The facts seen about one wrapper's use."""

    def __init__(self, loop: Loop, index: int, ddp: Any) -> None:
        self._loop, self._index = loop, index
        self._ddp = weakref.ref(ddp)
        self._names = [name for name, one in ddp.module.named_parameters() if one.requires_grad]
        self._reached: set[str] = set()
        self._without: dict[str, int] = {}
        self._windows = 0
        self._buckets: tuple[int, ...] = ()
        self._buffers: list[float] | None = None
        self._changed = self._checks = 0
        self._handles: list[Any] = []
        for name, one in ddp.module.named_parameters():
            if one.requires_grad and ordinary(one):
                self._listen(name, one)

    def _listen(self, name: str, parameter: torch.Tensor) -> None:
        """Listens at the node that adds to a gradient: DDP's own averaging fills gradients that this rank lacks."""
        with torch.enable_grad():
            made_by: Any = parameter.view_as(parameter).grad_fn
        reached = self._reached
        self._handles.append(made_by.next_functions[0][0].register_prehook(lambda gradients: reached.add(name)))

    def unreached(self) -> list[str]:
        """The parameters that no gradient has reached since the last step, if any was reached."""
        return [name for name in self._names if name not in self._reached] if self._reached else []

    def after_forward(self, ddp: Any) -> None:
        """Compares the buffers with their values after the last forward pass that was looked at."""
        if not _trains(ddp) or torch._C._get_tracing_state() is not None:
            return
        if self._checks >= BUFFER_CHECKS and not (sampled(self._loop.windows) and not self._on_device(ddp)):
            return
        with quietly():
            buffers = [one for one in ddp.module.buffers() if ordinary(one) and one.device.type != "meta"]
            now = [number(one.sum(dtype=torch.float64)) for one in buffers if not one.is_complex()]
        if self._buffers is not None:
            self._checks += 1
            self._changed += now != self._buffers
        self._buffers = now

    def _on_device(self, ddp: Any) -> bool:
        return any(one.device.type != "cpu" for one in ddp.module.buffers())

    def after_step(self, step: int) -> None:
        """Counts the parameters without gradient; a step without a backward pass through this wrapper shows nothing."""
        if self._handles and self._reached:
            self._windows += 1
            for name in self.unreached():
                self._without[name] = self._without.get(name, 0) + 1
            self._reached.clear()
            if self._windows >= WINDOWS_LOOKED_AT:
                for handle in self._handles:
                    handle.remove()
                self._handles.clear()
        if sampled(step):
            self.tell(step)

    def tell(self, step: int) -> None:
        """Writes what is known so far."""
        ddp = self._ddp()
        if ddp is not None:
            said = ddp._get_ddp_logging_data()
            sizes = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or ""
            self._buckets = tuple(int(part) for part in str(sizes).replace(",", " ").split())
        row = WrapperUseRow(
            self._index, step, self._buckets, dict(self._without), self._windows, self._changed, self._checks
        )
        self._loop.notebook.row(row)
