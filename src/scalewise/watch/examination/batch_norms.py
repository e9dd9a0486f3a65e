"""Notes the statistics that batch normalisation takes of one rank's own batch, in the first training passes."""

import functools
from typing import Any

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import Numbers
from scalewise.watch.examination.tensors import quietly, readable

PASSES = 6  # of each layer
MOST_LAYERS = 64
MOST_CHANNELS = 32


def install(notebook: Notebook) -> None:
    """Wraps the common `forward` of BatchNorm1d to 3d; SyncBatchNorm has one of its own and is not meant."""
    original: Any = _BatchNorm.forward
    layers, passes = Numbers(), dict[int, int]()

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() and notebook.on and _looks(self):
            try:
                _note(notebook, layers, passes, self, args[0] if args else kwargs["input"])
            except Exception as error:
                notebook.broke("batch norm", error)
        return original(self, *args, **kwargs)

    _BatchNorm.forward = forward  # type: ignore[method-assign]


def _looks(layer: Any) -> bool:
    distributed = torch.distributed
    return (
        layer.training
        and torch.is_grad_enabled()
        and not isinstance(layer, SyncBatchNorm)
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _note(notebook: Notebook, layers: Numbers, passes: dict[int, int], layer: Any, given: Any) -> None:
    known = layers.of(layer)
    index = layers.give(layer) if known is None else known
    passes[index] = passes.get(index, 0) + 1
    if index >= MOST_LAYERS or passes[index] > PASSES or not readable(given, early=True) or given.dim() < 2:
        return
    with quietly():
        channels = given[:, :MOST_CHANNELS].transpose(0, 1).flatten(1).double()
        variances, means = torch.var_mean(channels, dim=1, correction=0)
    values = ([float(f"{one:.6g}") for one in found.tolist()] for found in (means, variances))
    notebook.note("batch_norm", index, given.size(0), channels.size(1), *values)
