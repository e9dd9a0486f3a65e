"""Constructs DistributedDataParallel with other options: every setting is one, such as `bucket_cap_mb=25`."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "ddp_option"
CHANGE = Declared(settings={"option": "option"}, example="ddp_option:bucket_cap_mb=25")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor; refuses options that it does not take."""
    original: Any = DistributedDataParallel.__init__
    signature = inspect.signature(original)
    unknown = sorted(set(settings) - set(signature.parameters))
    if unknown or not settings:
        raise ValueError(f"DistributedDataParallel has no option {', '.join(unknown) or 'at all'} to set")

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        if any(bound.arguments.get(key) != value for key, value in settings.items()):
            recorder.intervene(NAME)
        bound.arguments.update(settings)
        original(*bound.args, **bound.kwargs)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
