"""Finds how parameters lie over the ranks: sharded by FSDP, or split by DTensor as in tensor parallelism.

Everything is read from what torch keeps about them; nothing is sent, and no value of a tensor is read.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Layout:
    """The layout of one rank's parameters."""

    averaged_over: tuple[int, ...] = ()  # ranks over which FSDP averages gradients
    split_over: tuple[int, ...] = ()  # ranks that each hold a part of one tensor, those of FSDP not counted
    placements: tuple[str, ...] = ()  # of those parameters that are DTensors


def layout_of(parameters: Iterable[torch.Tensor]) -> Layout:
    """The layout of the parameters that an optimizer holds."""
    sharded = [one for one in parameters if hasattr(one, "_local_tensor") and hasattr(one, "placements")]
    if not sharded and not any(_fsdp_states()):
        return Layout()
    averaged = sorted({rank for state in _fsdp_states() for rank in averaging_ranks(state)})
    split = {rank for one in sharded for rank in _split_ranks(one, set(averaged))}
    placements = {repr(placement) for one in sharded for placement in one.placements}
    return Layout(tuple(averaged), tuple(sorted(split)), tuple(sorted(placements)))


def averaging_ranks(state: Any) -> tuple[int, ...]:
    """The ranks over which one FSDP2 module averages its gradients: those of its shards and of their replicas."""
    group = getattr(state, "_fsdp_param_group", None)
    info = getattr(group, "mesh_info", None) or getattr(group, "post_forward_mesh_info", None)
    mesh = getattr(info, "mesh", None)
    return () if mesh is None else tuple(sorted(mesh.mesh.flatten().tolist()))


def _fsdp_states() -> Iterator[Any]:
    """The states of FSDP2, which torch keeps by module."""
    registry = sys.modules.get("torch.distributed._composable_state")
    for held in list(getattr(registry, "_module_state_mapping", {}).values()):
        state = held()
        if getattr(state, "_fsdp_param_group", None) is not None:
            yield state


def _split_ranks(parameter: Any, averaged: set[int]) -> Iterator[int]:
    """The ranks of each dimension of the mesh that splits the tensor and is not FSDP's own."""
    mesh = parameter.device_mesh
    for dimension, placement in enumerate(parameter.placements):
        if mesh.size(dimension) < 2 or placement.is_replicate():
            continue
        ranks = torch.distributed.get_process_group_ranks(mesh.get_group(dimension))
        if len(averaged & set(ranks)) < 2:  # FSDP's dimension lies among its own ranks, the others cross it
            yield from ranks
