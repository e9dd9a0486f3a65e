"""Sets the epoch of a sampler that knows of ranks each time its DataLoader is asked for a new iterator."""

import weakref
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "set_epoch"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps loaders; an epoch that the script has changed since the last iterator is left as it is."""
    last: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __iter__(call: Any, self: Any) -> Any:
        for sampler in (self.sampler, getattr(self.batch_sampler, "sampler", None)):
            epoch = getattr(sampler, "epoch", None)
            if sampler is None or epoch is None or not hasattr(sampler, "set_epoch"):
                continue
            if last.get(sampler) == epoch:
                sampler.set_epoch(epoch + 1)
                recorder.intervene(NAME)
            last[sampler] = sampler.epoch
            break
        return call(self)

    seam(DataLoader, "__iter__").around(__iter__)
