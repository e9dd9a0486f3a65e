"""Notes where the script seeds a generator: the line that advice on its seeds has to name."""

import functools
import random
import sys
from typing import Any

import torch

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.imports import after_import

MOST = 32  # of one process: a dataset that seeds itself for every sample does not fill the notes


def install(notebook: Notebook) -> None:
    """Wraps torch's and Python's functions now, and numpy's as soon as it is imported."""
    left = [MOST]
    owners: tuple[Any, ...] = (torch, torch.random)  # dynamo has put a function of its own in the first
    for owner in owners:
        owner.manual_seed = _noted(notebook, left, owner.manual_seed, "torch.manual_seed")
    random.seed = _noted(notebook, left, random.seed, "random.seed")

    def see_numpy() -> None:
        numpy: Any = sys.modules["numpy"]
        numpy.random.seed = _noted(notebook, left, numpy.random.seed, "numpy.random.seed")

    if "numpy" in sys.modules:
        see_numpy()
    else:
        after_import("numpy", see_numpy)


def _noted(notebook: Notebook, left: list[int], original: Any, call: str) -> Any:
    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if notebook.on and left[0] > 0:
            left[0] -= 1
            try:
                notebook.note("seed", call)
            except Exception as error:
                notebook.broke("seed", error)
        return result

    return seed
