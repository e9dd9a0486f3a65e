"""Counts the samples of a batch: the rows of the first tensor in it, along the dimension that counts samples.

By custom that is the first one. Recurrent layers and attention of torch take (time, batch, features) unless
`batch_first` is set. If such a layer inside a module receives the first two dimensions of the module's own input as
they are, the batch is the second one. Attention counts only if it has a mask, as a mask has the length of the
sequences; without one, models that give it the batch first by mistake are as common as models that do not.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from scalewise.watch.call_arguments import Argument
from scalewise.watch.hooks.roots import Root


def rows_of(args: tuple[Any, ...], kwargs: dict[str, Any], axis: int | None = 0) -> int | None:
    """The rows of the first tensor among the arguments, by custom its first dimension; None if that is not sure."""
    tensor = first_tensor((args, kwargs), depth=5)
    if tensor is None or tensor.dim() == 0:
        return None
    if tensor.dim() == 1 or tensor.size(0) == tensor.size(1):
        return int(tensor.size(0))
    return int(tensor.size(axis)) if axis is not None else None


def first_tensor(values: Any, depth: int) -> torch.Tensor | None:
    """The first tensor, depth-first through tuples, lists and dictionaries, as far down as batches usually nest."""
    if isinstance(values, torch.Tensor):
        return values
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        return None
    if depth:
        for value in values:
            found = first_tensor(value, depth - 1)
            if found is not None:
                return found
    return None


_INPUTS = Argument(nn.LSTM.forward, "input"), Argument(nn.MultiheadAttention.forward, "query")
_MASKS = tuple(Argument(nn.MultiheadAttention.forward, name) for name in ("attn_mask", "key_padding_mask"))


def takes_time_first(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], given: torch.Size) -> bool:
    """Returns whether this layer's call shows that `given`, the shape of the module's input, is (time, batch, ...)."""
    if isinstance(layer, nn.RNNBase):
        inputs = _INPUTS[0]
    elif isinstance(layer, nn.MultiheadAttention) and any(_of(mask, args, kwargs) is not None for mask in _MASKS):
        inputs = _INPUTS[1]
    else:
        return False
    if layer.batch_first:
        return False
    received = _of(inputs, args, kwargs)
    if isinstance(received, PackedSequence):
        sizes = received.batch_sizes
        return tuple(given[:2]) == (len(sizes), int(sizes[0]))
    return isinstance(received, torch.Tensor) and received.dim() == 3 and received.shape[:2] == given[:2]


def _of(argument: Argument, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of an argument of `forward` in a call of the module, which passes everything but the module itself."""
    return argument.of((None, *args), kwargs)


class Looking:
    """One call of a module whose batch dimension is not known yet; when it is over, `root.axis` is set."""

    def __init__(self, root: Root, given: torch.Tensor | None) -> None:
        self._root = root
        self._given = given.shape if given is not None else torch.Size()
        if len(self._given) < 2:
            root.axis = 0

    def look(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Looks at the call of a module inside, or of the module itself."""
        if self._root.axis is None and takes_time_first(layer, args, kwargs, self._given):
            self._root.axis = 1

    def over(self) -> None:
        """Sets the axis; two equal dimensions show nothing, but have equally many rows: a later call may show it."""
        if len(self._given) > 1 and self._given[0] == self._given[1]:
            self._root.axis = None
        elif self._root.axis is None:
            self._root.axis = 0
