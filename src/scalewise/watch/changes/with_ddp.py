"""Trains a script for one device with DistributedDataParallel: each rank its share of every batch.

`accumulate`: micro-batches into which each share is divided; gradients are exchanged in the last one.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.records.examination import UNUSED_PARAMETERS, MeasuredRow
from scalewise.watch.recorder import Recorder
from scalewise.watch.strategy.single_device import SingleDevice
from scalewise.watch.strategy.strategy_interface import Strategy, Trained
from scalewise.watch.strategy.without_gradient import unused_parameters

NAME = "with_ddp"
CHANGE = Declared(
    settings={"accumulate": "whole"},
    optional=("accumulate",),
    example="with_ddp:accumulate=4",
    least_ranks=2,
    strategies={"DDP": "with_ddp", "DDP, 4 micro-batches": "with_ddp:accumulate=4"},
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the model at its first call."""
    parts = int(settings.get("accumulate", 1))
    wrap = partial(wrapped, recorder, NAME)
    SingleDevice(recorder, Strategy(NAME, wrap, micro_batches=parts, hold_back=DistributedDataParallel.no_sync))


def wrapped(recorder: Recorder, change: str, trained: Trained) -> Any:
    """The model in torch's wrapper, which is told to search for unused parameters where there are some."""
    unused = unused_parameters(trained)
    if unused:
        recorder.journal.row(MeasuredRow(change, UNUSED_PARAMETERS, len(unused)))
    device = trained.device
    return DistributedDataParallel(
        trained.model,
        device_ids=[device.index] if device.type == "cuda" else None,
        find_unused_parameters=bool(unused),
    )
