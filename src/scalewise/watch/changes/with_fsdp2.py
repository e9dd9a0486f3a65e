"""Trains a script for one device with `fully_shard`: each rank holds a part of every parameter, gradient and state.

`keep`: if 1, parameters that were gathered for the forward pass are kept until the backward pass.
"""

from collections.abc import Mapping
from typing import Any

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.strategy.blocks import repeated_blocks
from scalewise.watch.strategy.single_device import SingleDevice
from scalewise.watch.strategy.strategy_interface import Strategy, Trained
from scalewise.watch.strategy.swapped_parameters import swapped_parameters

NAME = "with_fsdp2"
CHANGE = Declared(
    settings={"keep": "whole"},
    optional=("keep",),
    example="with_fsdp2:keep=1",
    least_ranks=2,
    strategies={"FSDP2": "with_fsdp2", "FSDP2, parameters kept": "with_fsdp2:keep=1"},
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Shards the repeated blocks of the model one by one, and what is left as a whole."""
    kept = bool(settings.get("keep"))

    def applied(trained: Trained) -> Any:
        mesh = init_device_mesh(trained.device.type, (trained.ranks,))
        with swapped_parameters(trained):
            for _, block in repeated_blocks(trained.model):
                fully_shard(block, mesh=mesh, reshard_after_forward=not kept)
            fully_shard(trained.model, mesh=mesh, reshard_after_forward=not kept)
        return trained.model

    SingleDevice(recorder, Strategy(NAME, applied))
