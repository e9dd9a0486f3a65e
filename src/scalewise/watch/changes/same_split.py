"""Makes `random_split` draw with one and the same seed on every rank, whatever generator it is given."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import data
from torch.utils.data import dataset

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "same_split"
CHANGE = Declared()
SEED = 0


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Puts the wrapper wherever torch has bound the function; the script has not imported it yet."""
    original: Any = data.random_split

    @functools.wraps(original)
    def random_split(dataset: Any, lengths: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.intervene(NAME)
        return original(dataset, lengths, generator=torch.Generator().manual_seed(SEED))

    data.random_split = dataset.random_split = random_split
