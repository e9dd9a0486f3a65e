"""Notes when the script reads a tensor of its device into the host, which waits for everything the device has to do."""

import functools
import sys
from time import perf_counter_ns
from typing import Any

import torch

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.notebook import Notebook

CALLS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__", "__format__")


def install(notebook: Notebook) -> None:
    """Only where there can be such a device: on others nothing runs behind the host."""
    if torch.version.cuda is None and torch.version.hip is None:
        return
    for name in CALLS:
        setattr(torch.Tensor, name, _noted(notebook, name))
    torch.Tensor.to = _noted_to(notebook)  # type: ignore[method-assign]


def _noted(notebook: Notebook, name: str) -> Any:
    original = getattr(torch.Tensor, name)
    of_user = notebook.places.of_user

    @functools.wraps(original)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_cuda or not of_user(sys._getframe(1).f_code):
            return original(self, *args, **kwargs)
        began_ns = perf_counter_ns()
        result = original(self, *args, **kwargs)
        _note(notebook, name, self, perf_counter_ns() - began_ns)
        return result

    return noted


def _noted_to(notebook: Notebook) -> Any:
    """`to` reads only when it leads to the host, and waits only when it was not asked not to."""
    original: Any = torch.Tensor.to
    of_user = notebook.places.of_user

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_cuda or not of_user(sys._getframe(1).f_code):
            return original(self, *args, **kwargs)
        began_ns = perf_counter_ns()
        result = original(self, *args, **kwargs)
        if not result.is_cuda and not kwargs.get("non_blocking"):
            _note(notebook, "to", self, perf_counter_ns() - began_ns)
        return result

    return to


def _note(notebook: Notebook, name: str, tensor: Any, wait_ns: int) -> None:
    try:
        place = notebook.places.caller(2)
        if place != NOWHERE and notebook.on:
            notebook.note("host_read", name.strip("_"), str(tensor.device), wait_ns, place=place)
    except Exception as error:
        notebook.broke("host read", error)
