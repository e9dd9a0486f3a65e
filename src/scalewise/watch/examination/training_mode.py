"""Counts layers that still behave as in training: dropout that drops, batch normalisation that uses the batch."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

_DROP_PATHS = {"DropPath": "drop_prob", "StochasticDepth": "p"}  # of other libraries, by the names of their classes


def active_layers(module: nn.Module) -> tuple[int, int]:
    """The numbers of dropout layers and of batch-normalisation layers in a module that are in training mode."""
    layers = [one for one in module.modules() if one.training]
    return sum(map(_drops, layers)), sum(isinstance(one, _BatchNorm) for one in layers)


def _drops(layer: nn.Module) -> bool:
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout > 0)
    if isinstance(layer, nn.RNNBase):
        return layer.dropout > 0 and layer.num_layers > 1
    attribute = _DROP_PATHS.get(type(layer).__name__)
    chance = getattr(layer, attribute, None) if attribute else None
    return isinstance(chance, (int, float)) and chance > 0
