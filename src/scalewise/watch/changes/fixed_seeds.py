"""Seeds all generators when a rank starts, each rank otherwise: a script that seeds nothing repeats itself.

What the script seeds itself, it seeds later, and as it wants. Ranks that a strategy makes of a script for one device
are seeded alike, as all of them draw the batches of that one device.
"""

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared, declared
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "fixed_seeds"
CHANGE = Declared(settings={"seed": "whole"}, example="fixed_seeds:seed=1")
_APART = 1000  # between the seeds of two ranks


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Seeds Python's, numpy's and torch's generators, and numpy's new ones that are made without a seed."""
    alike = any(declared(one.name).strategies for one in recorder.changes)
    seed = int(settings["seed"]) + (0 if alike else _APART * recorder.rank)

    def seed_numpy() -> None:
        numpy: Any = sys.modules["numpy"]
        numpy.random.seed(seed % 2**32)
        seam(numpy.random, "default_rng").around(default_rng)

    def default_rng(call: Any, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs) if args or kwargs else call(seed)

    random.seed(seed)
    torch.default_generator.manual_seed(seed)  # by the function, it would seem that the script had seeded
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    if "numpy" in sys.modules:
        seed_numpy()
    else:
        after_import("numpy", seed_numpy)
    seam(torch, "seed", also=[torch.random]).replace(lambda: seed)  # would take a seed from the system
    recorder.intervene(NAME)
