"""Notes every step of an optimizer, what became of the gradients before it, and steps of the schedule of its rate."""

from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer

from scalewise.records.examination import OptimizerRow
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.examination.probes import parameters_of
from scalewise.watch.examination.tensors import number
from scalewise.watch.journal import now_ns
from scalewise.watch.seams import Given, Looks, Outermost, caller, seam, step_hooks

COUNTED_WINDOWS = 64  # in which all gradients are counted at every step, and then once in so many
_Scheduler: Any = lr_scheduler.LRScheduler
_STEPPED = Argument(GradScaler.step, "optimizer")
_Measured = tuple[float | None, float | None, float | None]  # ratio, norm that backward left, norm that is applied


def install(notebook: Notebook) -> None:
    """Uses torch's own hooks, which run after the watcher's; a step inside another optimizer's is part of that step."""
    steps = _Steps(loop_of(notebook))

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        # So that the first backward pass has a parameter to look at.
        steps.loop.optimizer(receiver(args, kwargs))

    step_hooks.before(notebook, steps.begin)
    step_hooks.after(notebook, steps.end)
    seam(Optimizer, "__init__").after(notebook, made)
    seam(GradScaler, "step").during(notebook, steps.scaled)
    _see_schedules(steps.loop)


class _Steps:
    """The steps under way, and what was known when they began."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._under_way: list[Optimizer] = []
        self._described: set[int] = set()
        self.done = 0
        self._began_ns = 0
        self._closure = False
        self._measured: _Measured = (None, None, None)
        self._gradients = (0, 0)
        self._counted: dict[int, tuple[int, int]] = {}

    def begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Takes notes before the optimizer uses its gradients."""
        if self.loop.recorder.optimizer_depth - self.loop.scaling <= 1:
            self._under_way.clear()  # a step that raised never called the hook after it
        self._under_way.append(optimizer)
        if len(self._under_way) == 1:
            self._closure = any(callable(one) for one in (*args, *kwargs.values()))
            self._measured = (None, None, None) if self._closure else self._measure(optimizer)
            self._gradients = self._count(optimizer)
            self._began_ns = now_ns()

    def _count(self, optimizer: Optimizer) -> tuple[int, int]:
        """The counts of an optimizer's gradients; later taken only now and then, as there may be thousands."""
        number, windows = self.loop.optimizer(optimizer), self.loop.windows
        if windows < COUNTED_WINDOWS or windows % COUNTED_WINDOWS == 0 or number not in self._counted:
            self._counted[number] = gradient_counts(optimizer)
        return self._counted[number]

    def end(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Notes the step after the parameters are updated."""
        if optimizer not in self._under_way or self._under_way.pop() is not optimizer or self._under_way:
            return
        lasted_ns = now_ns() - self._began_ns
        if self._closure:
            self._gradients = gradient_counts(optimizer)
        self.done += 1
        self.note(optimizer, lasted_ns, skipped=False, measured=self._measured)

    def scaled(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        """Notes skipped steps: a scaler that finds a gradient that is not finite never calls its optimizer."""
        scaler, loop = receiver(args, kwargs), self.loop
        if not scaler._enabled:
            return
        loop.on_scaler(scaler, "step")
        done = self.done
        loop.scaling += 1
        began_ns = now_ns()
        try:
            yield
            if self.done == done:
                optimizer = _STEPPED.of(args, kwargs)
                self.note(optimizer, now_ns() - began_ns, skipped=True, measured=(None, None, None))
        finally:
            loop.scaling -= 1

    def note(self, optimizer: Optimizer, lasted_ns: int, skipped: bool, measured: _Measured) -> None:
        """Notes a step that ran, or that a scaler skipped."""
        loop = self.loop
        number = loop.optimizer(optimizer)
        have, could = gradient_counts(optimizer) if skipped else self._gradients
        ratio, left, norm = measured
        if number not in self._described:
            self._described.add(number)
            place, owned = loop.notebook.places.here(), type(optimizer).__module__.startswith("torch.")
            options = optimizer_options(optimizer)
            name, rates = type(optimizer).__name__, learning_rates(optimizer)
            loop.notebook.row(OptimizerRow(number, name, place, could, owned, options, rates))
        loop.notebook.note("step", number, lasted_ns, skipped, loop.scaling > 0, ratio, have, could, left, norm)
        loop.step_over()

    def _measure(self, optimizer: Optimizer) -> _Measured:
        """The ratio and norms of the gradient as it would be without clipping, in the first windows."""
        loop = self.loop
        probe = loop.probes.of(loop.optimizer(optimizer)) if loop.early else None
        ratio, left, norm = probe.measure(loop.early) if probe is not None else (None, None, None)
        if probe is None or ratio is None or norm is None:
            return None, None, None
        return ratio * probe.unclipped, left, norm * probe.unclipped


def optimizer_options(optimizer: Any) -> dict[str, bool]:
    """The options (fused, foreach, capturable) that an optimizer was given; those it was not given are left out."""
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    return {name: group[name] for name in ("fused", "foreach", "capturable") if type(group.get(name)) is bool}


def learning_rates(optimizer: Any) -> tuple[float, ...]:
    """The learning rate of each parameter group; empty if one of them is a tensor, which is not read."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return tuple(map(float, rates)) if all(type(rate) in (int, float) for rate in rates) else ()


def gradient_counts(optimizer: Any) -> tuple[int, int]:
    """The numbers of an optimizer's parameters that have a gradient, and that could have one."""
    parameters = parameters_of(optimizer)
    return sum(one.grad is not None for one in parameters), sum(one.requires_grad for one in parameters)


# ---- schedules of learning rates


def _see_schedules(loop: Loop) -> None:
    """Looks at `step` in every class of torch's that has its own; schedulers made of schedulers count once."""
    numbers, outermost = ObjectNumbers(), Outermost()

    def scheduler_step(args: tuple[Any, ...], kwargs: Given) -> Looks:
        if _constructs():
            return
        yield
        _note_rate(loop, numbers, receiver(args, kwargs))

    for kind in list(vars(lr_scheduler).values()):
        if isinstance(kind, type) and issubclass(kind, _Scheduler) and "step" in vars(kind):
            seam(kind, "step").during(loop.notebook, scheduler_step, outermost)


def _constructs() -> bool:
    """Returns whether a scheduler is being made: its constructor steps once, through this function."""
    code = caller().f_code
    return code.co_name in ("_initial_step", "__init__") and code.co_filename == lr_scheduler.__file__


def _note_rate(loop: Loop, numbers: ObjectNumbers, scheduler: Any) -> None:
    known = numbers.of(scheduler)
    index = numbers.give(scheduler) if known is None else known
    optimizer = scheduler.optimizer
    loop.notebook.note("schedule", index, loop.optimizer(optimizer), _rate(optimizer))


def _rate(optimizer: Any) -> float:
    """The learning rate; not a number if it lies on a device, as reading it is not worth waiting for."""
    rate = optimizer.param_groups[0]["lr"]
    if isinstance(rate, torch.Tensor):
        return number(rate) if rate.device.type == "cpu" else float("nan")
    return float(rate)
