"""Seeds all generators when a rank starts, each rank otherwise: a script that seeds nothing repeats itself.

What the script seeds itself, it seeds later, and as it wants.
"""

import functools
import random
import sys
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder

NAME = "fixed_seeds"
CHANGE = Declared(settings={"seed": "whole"}, example="fixed_seeds:seed=1")
_APART = 1000  # between the seeds of two ranks


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Seeds Python's, numpy's and torch's generators, and numpy's new ones that are made without a seed."""
    seed = int(settings["seed"]) + _APART * recorder.rank

    def seed_numpy() -> None:
        numpy: Any = sys.modules["numpy"]
        numpy.random.seed(seed % 2**32)
        original = numpy.random.default_rng

        @functools.wraps(original)
        def default_rng(*args: Any, **kwargs: Any) -> Any:
            if not args and not kwargs:
                args = (seed,)
            return original(*args, **kwargs)

        numpy.random.default_rng = default_rng

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        seed_numpy()
    else:
        after_import("numpy", seed_numpy)
    torch.seed = torch.random.seed = lambda: seed  # would take a seed from the system
    recorder.intervene(NAME)
