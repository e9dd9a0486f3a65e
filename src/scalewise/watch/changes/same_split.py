"""Makes `random_split` draw with one and the same seed on every rank, whatever generator it is given."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import data
from torch.utils.data import dataset

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "same_split"
CHANGE = Declared()
SEED = 0


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Puts the wrapper wherever torch has bound the function; the script has not imported it yet."""

    def random_split(call: Any, dataset: Any, lengths: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.intervene(NAME)
        return call(dataset, lengths, generator=torch.Generator().manual_seed(SEED))

    seam(data, "random_split", also=[dataset]).around(random_split)
