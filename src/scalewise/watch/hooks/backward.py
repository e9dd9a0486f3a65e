"""Sees every outermost backward pass: its duration, and the loss it is called on where that can be read for free."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from scalewise.watch.recorder import Recorder

# Reading a loss from a GPU costs the host some 15 us even beside the stream, so only every so many steps' are read.
DEVICE_LOSS_EVERY = 8


def install(recorder: Recorder) -> None:
    """`Tensor.backward` calls `torch.autograd.backward`, so two functions are enough."""
    autograd: Any = torch.autograd
    autograd.backward = _watched(recorder, autograd.backward, reads_loss=True)
    autograd.grad = _watched(recorder, autograd.grad, reads_loss=False)


def _watched(recorder: Recorder, original: Callable[..., Any], reads_loss: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.backward_depth or not recorder.on:
            return original(tensors, *args, **kwargs)
        recorder.backward_depth = 1
        try:
            if reads_loss:
                note_loss(recorder, tensors)
            recorder.backward_begin()
        except Exception as error:
            recorder.broke("backward", error)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            recorder.backward_depth = 0
            try:
                # autograd.grad that keeps a graph feeds a later backward (a gradient penalty): not a pass of its own.
                recorder.backward_end(counts=reads_loss or not kwargs.get("create_graph", False))
            except Exception as error:
                recorder.broke("backward", error)

    return watched


def note_loss(recorder: Recorder, tensors: Any) -> None:
    """Adds the loss of this pass to the step, unless the scaler has shown us the unscaled one already."""
    line = recorder.line
    if recorder.loss_seen:
        recorder.loss_seen = False
        return
    loss = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
    if type(loss) is not torch.Tensor or loss.numel() != 1:
        return
    if loss.device.type == "cpu":
        line.add_loss(loss.item())
    elif loss.device.type == "cuda" and recorder.step % DEVICE_LOSS_EVERY == 0:
        line.device_losses += (functools.partial(_fetch, loss.detach()),)


def _fetch(loss: torch.Tensor) -> float:
    """Copies beside the script's own stream, so that reading an old step's loss does not wait for the newest."""
    with torch.cuda.stream(_side_stream(loss.device)):
        return loss.item()


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
