"""Notes every outermost backward pass: its duration, and the loss it is called on if that can be read for free."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from scalewise.records.events import BACKWARD, BACKWARD_END, GRAD_END
from scalewise.watch.recorder import Recorder
from scalewise.watch.step_clocks import EventClock

_Tensor = torch.Tensor


def install(recorder: Recorder) -> None:
    """Wraps two functions, which are enough: `Tensor.backward` calls `torch.autograd.backward`."""
    autograd: Any = torch.autograd
    backward, watched = autograd.backward, _watched(recorder, autograd.backward, reads_loss=True)
    autograd.backward = watched
    autograd.grad = _watched(recorder, autograd.grad, reads_loss=False)

    def rest(resting: bool) -> None:
        if autograd.backward in (backward, watched):  # else somebody has wrapped it once more
            autograd.backward = backward if resting else watched

    recorder.on_rest.append(rest)


def _watched(recorder: Recorder, original: Callable[..., Any], reads_loss: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if (
            not recorder.awake
            or recorder.backward_depth
            or not recorder.on
            or (not reads_loss and _tracing() is not None)
        ):
            return original(*args, **kwargs)
        recorder.backward_depth = 1
        try:
            if not (recorder.open and recorder.plain_backward):
                recorder.prepare_backward()
            loss = None
            if reads_loss and not recorder.loss_shown:
                loss = loss_of(recorder, args[0] if args else kwargs.get("tensors"))
            recorder.loss_shown = False
            recorder.stamp(BACKWARD)
            recorder.value(loss)
        except Exception as error:
            recorder.broke("backward", error)
        try:
            return original(*args, **kwargs)
        finally:
            recorder.backward_depth = 0
            try:
                if reads_loss or _reaches_parameters(args, kwargs):
                    recorder.stamp(BACKWARD_END)
                    recorder.passes += 1
                    if recorder.uses is not None:
                        recorder.uses.pass_ends()
                else:
                    recorder.stamp(GRAD_END)
                if recorder.after_backward is not None:
                    recorder.after_backward()
                if recorder.stepped_in_backward is not None:
                    recorder.end_in_backward()
            except Exception as error:
                recorder.broke("backward", error)

    return watched


def _reaches_parameters(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns whether autograd.grad is a pass of its own: gradients of parameters feed no later backward pass."""
    if kwargs.get("create_graph") or args[4:5] == (True,):
        return False
    inputs = kwargs["inputs"] if "inputs" in kwargs else args[1]
    first = inputs[0] if isinstance(inputs, (tuple, list)) and inputs else inputs
    return isinstance(first, torch.nn.Parameter)


def _tracing() -> Any:
    """The context of what torch.compile traces now, or None: it calls autograd.grad to draw a graph, not to train."""
    return torch._guards.TracingContext.try_get()


def loss_of(recorder: Recorder, tensors: Any) -> float | None:
    """The loss, if it can be read without waiting: on the CPU; on a GPU it is lent to the clock in marked steps."""
    if recorder.clock is not None and not recorder.marked:
        return None  # reading a loss from a GPU costs the host some 20 us, even beside the stream
    loss = tensors if type(tensors) is _Tensor else _only(tensors)
    if loss is None or loss.numel() != 1:
        return None
    if not loss.is_cuda:
        return loss.item()
    if isinstance(recorder.clock, EventClock):
        recorder.clock.lend(functools.partial(_fetch, loss.detach()))
    return None


def _only(tensors: Any) -> torch.Tensor | None:
    first = next(iter(tensors), None) if isinstance(tensors, (tuple, list)) else tensors
    return first if type(first) is torch.Tensor else None


def _fetch(loss: torch.Tensor) -> float:
    """Copies beside the script's own stream, so that reading an old step's loss does not wait for the newest."""
    with torch.cuda.stream(_side_stream(loss.device)):
        return loss.item()


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
