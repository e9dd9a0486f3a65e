"""Declares the FSDP of `fully_shard`, which gives a model another class and makes DTensors of its parameters."""

from typing import Any

from scalewise.watch.layout import averaging_ranks
from scalewise.watch.wrappers import WrapperKind


def _synchronises(module: Any) -> bool:
    """Returns whether it will synchronise, from a flag private to torch; True, as by default, if there is none."""
    return bool(getattr(getattr(module._get_fsdp_state(), "_fsdp_param_group", None), "reduce_grads", True))


def _ranks(module: Any) -> tuple[int, ...]:
    """The ranks of the first module that has shards: the outermost has none if all are inside it."""
    states = (one._get_fsdp_state() for one in module.modules() if hasattr(one, "_get_fsdp_state"))
    return next(filter(None, map(averaging_ranks, states)), ())


KIND = WrapperKind(
    name="FSDP",
    classes=("torch.FSDPModule",),
    exchange="shards",
    inner="",
    synchronises=_synchronises,
    ranks=_ranks,
)
