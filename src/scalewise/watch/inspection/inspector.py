"""Tells each concern of an inspection what the script does, and writes its findings between two steps."""

import atexit
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler, OptState
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from scalewise.records.folder import RunFolder
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.inspection.close_look import CloseLook
from scalewise.watch.inspection.device_use import QUIET_STEPS, DeviceUse
from scalewise.watch.inspection.gradients import gradient_row
from scalewise.watch.inspection.layer_times import LayerTimes, now_ns
from scalewise.watch.inspection.tensor_places import in_main_thread
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, Looks, Outermost, seam, step_hooks

LOOK_STEPS = range(3)  # memory and transfers: every operation is looked at
TIMED_STEPS = range(1, 5)  # the last two of them without the close look, which takes time of its own

_STEPPED = Argument(GradScaler.step, "optimizer")


class Abstained(Exception):
    """A part that is left out, with the reason; no fault of ours."""


class _Depth(threading.local):
    """The depth of module calls in each thread."""

    modules = 0


class Inspector:
    """The inspection of one process. Hooks are guarded: a fault of ours ends the inspection's part, not the script."""

    def __init__(self, recorder: Recorder, folder: RunFolder) -> None:
        self.step = -1
        self.phase = "own"
        self.paused = False
        self._recorder = recorder
        self._troubles: deque[tuple[str, Exception]] = deque()
        self._noted: set[str] = set()
        self._depth = _Depth()
        self._in_backward = False
        self._optimizers: dict[int, Optimizer] = {}
        self._look = CloseLook(self, self.broke)
        self._use = DeviceUse(recorder, folder)
        self._timeline: LayerTimes | None = LayerTimes(self.broke)
        self._looks = True  # at memory, in the first steps
        self._module_hooks: list[Any] = []
        self._scaling = False  # a scaler is at its step, and has shown its gradients

    def install(self) -> None:
        """Installs hooks on top of the ordinary ones, which open and close the steps."""
        before, after = self._guarded(self._before_module), self._guarded(self._after_module)
        self._module_hooks = [
            register_module_forward_pre_hook(lambda module, inputs: before(module)),
            register_module_forward_hook(after),
        ]
        step_hooks.before(self, self._before_optimizer)
        step_hooks.after(self, self._after_optimizer)
        seam(torch.autograd, "backward").during(self, self._backward, Outermost())
        seam(GradScaler, "step").during(self, self._scaler_step)
        # Nothing may be looked at when something is compiled, as hooks and modes would change it; gradients still are.
        seam(torch, "compile").before(self, self._before_compile)
        self._look.saved.step_aside_for_transforms(self)
        seam(torch.UntypedStorage, "resize_").after(self, self._look.resized)
        self._use.install()
        atexit.register(self._guarded(self._finish))

    @property
    def on(self) -> bool:
        """Returns whether this process is watched."""
        return self._recorder.on

    def broke(self, where: str, error: Exception) -> None:
        """Keeps an error until the main thread writes rows, between two steps; each part breaks only once."""
        if where not in self._noted:
            self._noted.add(where)
            self._troubles.append((f"inspection of {where}", error))

    # ---- hooks

    def _before_module(self, module: nn.Module) -> None:
        outermost, self._depth.modules = not self._depth.modules, self._depth.modules + 1
        if not torch.is_grad_enabled() or self._in_backward:
            return
        if in_main_thread():
            if outermost and self._recorder.open and module.training:
                if self._recorder.step != self.step:
                    self._open_step(module)
                self.phase = "forward"
                self._look.begin_forward()
        elif outermost:
            self._look.enter_thread()
        if self._timeline is not None and self._recorder.open:
            self._quietly("timeline", lambda timeline: timeline.before(module))

    def _after_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._depth.modules = max(0, self._depth.modules - 1)
        if torch.is_grad_enabled() and not self._in_backward:
            self._look.see_gathered(module)
            self._quietly("timeline", lambda timeline: timeline.after(module, inputs, output))
        if not self._depth.modules and not in_main_thread():
            self._look.leave_thread()

    def _backward(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        self._in_backward = True
        try:
            self._before_backward()
            yield
        finally:
            self._in_backward = False
            self._after_backward()

    def _before_backward(self) -> None:
        self._look.begin_backward()
        self.phase = "backward"

    def _after_backward(self) -> None:
        self._depth.modules = 0  # outside all modules, even if one has raised
        self.phase = "own"
        self._look.end_backward(self._parameters())
        self._quietly("timeline", lambda timeline: timeline.after_backward())

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer
        self.phase = "optimizer"
        if not self._scaling:
            if kwargs.get("closure") is not None or args[1:2] not in ((), (None,)):
                self._abstain("gradients", "the optimizer calls the closure itself, after they could be looked at")
            else:
                self._show_gradients(optimizer, 1.0)
        self._look.begin_optimizer(self._parameters())
        parameters = self._parameters()
        self._quietly("timeline", lambda timeline: timeline.optimizer("begin", parameters))

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        parameters = self._parameters()
        self._quietly("timeline", lambda timeline: timeline.optimizer("end", parameters))
        self._look.end_optimizer(list(self._optimizers.values()))
        self.phase = "own"

    def _scaler_step(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        try:
            self._before_scaler(receiver(args, kwargs), _STEPPED.of(args, kwargs))
            yield
        finally:
            self._scaling = False

    def _before_scaler(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Looks at the gradients here, as a step that the scaler will skip never reaches the optimizer."""
        if not scaler.is_enabled():
            return
        self._optimizers[id(optimizer)] = optimizer
        scaled = scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY
        self._look.begin_optimizer(self._parameters())
        self._show_gradients(optimizer, scaler.get_scale() if scaled else 1.0)
        self._scaling = True

    def _before_compile(self, args: tuple[Any, ...], kwargs: Given) -> None:
        self._stop_looking("torch.compile is at work, and looking closely would change its graphs")

    # ---- the life of an inspected step

    def _open_step(self, root: nn.Module) -> None:
        self._close_step(last=self.step + 1 not in LOOK_STEPS)
        self.step = step = self._recorder.step
        if self._timeline is not None and any(is_traceable_wrapper_subclass(one) for one in root.parameters()):
            self._leave_out(
                "layers and transfers", "the parameters are sharded tensors, which lie elsewhere than they say"
            )
        timing = step in TIMED_STEPS
        self._quietly("timeline", lambda timeline: timeline.begin_step(root, step, timing))
        if self._looks and step in LOOK_STEPS:
            self._look.begin_step(root)
        if self._timeline is not None:
            self._use.count(step)

    def _close_step(self, last: bool) -> None:
        """Writes what the last step has shown."""
        journal = self._recorder.journal
        rows: list[object] = []
        if self._timeline is not None:
            rows += [*self._timeline.new_layers(), *self._timeline.take_rows()]
        try:
            rows += self._look.end_step(last)
        except Exception as error:
            self.broke("memory and transfers", error)
            self._look.stop()
        for row in rows:
            journal.row(row)
        while self._troubles:
            self._recorder.broke(*self._troubles.popleft())

    def _finish(self) -> None:
        if self._recorder.on and self._recorder.started:
            self._close_step(last=True)
            self._use.finish()
            for row in self._look.last_rows():
                self._recorder.journal.row(row)

    def _stop_looking(self, why: str) -> None:
        for hook in self._module_hooks:
            hook.remove()
        self._module_hooks = []
        self._looks = False
        self._look.stop()
        self._leave_out("layers, memory and transfers", why)

    def _leave_out(self, what: str, why: str) -> None:
        self._timeline = None
        self._use.refuse_count(why)
        self._abstain(what, why)

    def _show_gradients(self, optimizer: Optimizer, scale: float) -> None:
        if self._recorder.step in QUIET_STEPS:
            return
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self.paused, began_ns = True, now_ns()
        try:
            with self._use.ours():
                row = gradient_row(self._recorder.step, parameters, scale)
        finally:
            self.paused = False
        if self._timeline is not None:
            self._timeline.leave_out(now_ns() - began_ns)
        if row is not None:
            self._recorder.journal.row(row)

    def _parameters(self) -> list[torch.Tensor]:
        groups = (group for optimizer in self._optimizers.values() for group in optimizer.param_groups)
        return list({id(one): one for group in groups for one in group["params"]}.values())

    def _abstain(self, what: str, why: str) -> None:
        self.broke(what, Abstained(why))

    def _quietly(self, where: str, act: Callable[[LayerTimes], None]) -> None:
        if self._timeline is None:
            return
        try:
            act(self._timeline)
        except Exception as error:
            self._timeline.timing = False
            self.broke(where, error)

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        def guarded(*args: Any) -> None:
            if self._recorder.on:
                try:
                    hook(*args)
                except Exception as error:
                    self.broke(hook.__name__.strip("_").replace("_", " "), error)

        return guarded
