"""Notes the statistics that batch normalisation takes of one rank's own batch, in the first training passes."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers
from scalewise.watch.examination.tensors import quietly, readable

PASSES = 6  # of each model
MOST_LAYERS = 64
MOST_CHANNELS = 32


class BatchNorms:
    """A recorder of batch-norm layers' calls; it changes no class, so that a model can be scripted."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._layers = ObjectNumbers()
        self.looking = False

    def begin(self, trains: bool, passes: int) -> None:
        """Prepares for an outermost call; `passes`: how often this model was called to train before."""
        self.looking = trains and passes < PASSES and several_ranks() and not capturing()

    def end(self) -> None:
        """Ends the outermost call."""
        self.looking = False

    def see(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes a module inside that is about to be called. SyncBatchNorm is left out: it takes all ranks' samples."""
        if not isinstance(module, _BatchNorm) or isinstance(module, SyncBatchNorm) or not module.training:
            return
        try:
            self._note(module, args[0] if args else kwargs["input"])
        except Exception as error:
            self._notebook.broke("batch norm", error)

    def _note(self, layer: nn.Module, given: Any) -> None:
        known = self._layers.of(layer)
        index = self._layers.give(layer) if known is None else known
        if index >= MOST_LAYERS or not readable(given, early=True) or given.dim() < 2:
            return
        with quietly():
            channels = given[:, :MOST_CHANNELS].transpose(0, 1).flatten(1).double()
            variances, means = torch.var_mean(channels, dim=1, correction=0)
        values = ([float(f"{one:.6g}") for one in found.tolist()] for found in (means, variances))
        self._notebook.note("batch_norm", index, given.size(0), channels.size(1), *values)


def several_ranks() -> bool:
    """Returns whether there is a process group of more than one rank."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def capturing() -> bool:
    """Returns whether a CUDA graph is being recorded: nothing may be read from the device then."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
