"""Constructs DistributedDataParallel with other options: every setting is one, such as `bucket_cap_mb=25`."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "ddp_option"
CHANGE = Declared(settings={"option": "option"}, example="ddp_option:bucket_cap_mb=25")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor; refuses options that it does not take."""
    signature = inspect.signature(DistributedDataParallel.__init__)
    unknown = sorted(set(settings) - set(signature.parameters))
    if unknown or not settings:
        raise ValueError(f"DistributedDataParallel has no option {', '.join(unknown) or 'at all'} to set")

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        if any(bound.arguments.get(key) != value for key, value in settings.items()):
            recorder.intervene(NAME)
        bound.arguments.update(settings)
        call(*bound.args, **bound.kwargs)

    seam(DistributedDataParallel, "__init__").around(__init__)
