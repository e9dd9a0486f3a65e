"""Makes batch normalisation use the samples of all ranks: layers are converted before DDP wraps the model."""

import functools
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "sync_batch_norm"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces layers inside the model, with their own parameters, so that an optimizer made before still fits."""
    original: Any = DistributedDataParallel.__init__

    @functools.wraps(original)
    def __init__(self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in module.modules()):
            recorder.intervene(NAME)
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        original(self, module, *args, **kwargs)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
