"""Makes batch normalisation use the samples of all ranks: layers are converted before DDP wraps the model."""

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "sync_batch_norm"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces layers inside the model, with their own parameters, so that an optimizer made before still fits."""

    def __init__(call: Any, self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in module.modules()):
            recorder.intervene(NAME)
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        call(self, module, *args, **kwargs)

    seam(DistributedDataParallel, "__init__").around(__init__)
