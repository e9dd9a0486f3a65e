"""Notes when a backward pass has computed its gradients: after that it only waits for other ranks.

DDP waits in a callback that it gives to the engine near the end of the pass. A callback that is given at the beginning
is called first, right when all gradients are there.
"""

import functools
from typing import Any

import torch

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.stamp import now_ns


def install(notebook: Notebook) -> None:
    """Wraps `torch.autograd.backward`; host only, as a GPU computes on when its gradients are asked for."""
    autograd: Any = torch.autograd
    original = autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if notebook.recorder.backward_depth or not notebook.on or not torch.distributed.is_initialized():
            return original(*args, **kwargs)
        handle = None
        try:
            handle = _listen(notebook, args[0] if args else kwargs["tensors"])
        except Exception as error:
            notebook.broke("computing", error)
        try:
            return original(*args, **kwargs)
        finally:
            if handle is not None:
                handle.remove()

    if torch.distributed.is_available():
        autograd.backward = backward


def _listen(notebook: Notebook, tensors: Any) -> Any:
    """Waits for the first node of the graph to begin, and then gives the engine a callback."""
    first = next(iter(tensors), None) if isinstance(tensors, (tuple, list)) else tensors
    if not isinstance(first, torch.Tensor) or first.grad_fn is None or first.device.type != "cpu":
        return None
    began_ns = now_ns()

    def computed() -> None:
        try:
            notebook.note("computed", now_ns() - began_ns, place=NOWHERE)
        except Exception as error:
            notebook.broke("computing", error)

    def begins(gradients: Any) -> None:
        try:
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(computed)
        except Exception as error:
            notebook.broke("computing", error)

    return first.grad_fn.register_prehook(begins)
