"""Switches dropout off: the masks of a rank's samples cannot be those of the same samples in another batch."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam, seams

NAME = "no_dropout"
CHANGE = Declared()
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Changes torch's functions for dropout, and the probability that attention and recurrent layers are given."""

    def by_name(call: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if training and p:
            recorder.intervene(NAME)
        return call(input, p, False, inplace)

    def by_place(call: Any, input: Any, p: float, train: bool) -> Any:
        if train and p:
            recorder.intervene(NAME)
        return call(input, p, False)

    def attention(call: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dropout_p") or (len(args) > 4 and args[4]):
            recorder.intervene(NAME)
            kwargs = {**kwargs, "dropout_p": 0.0} if "dropout_p" in kwargs else kwargs
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
        return call(*args, **kwargs)

    def recurrent(call: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        call(self, *args, **kwargs)
        if self.dropout:
            recorder.intervene(NAME)
            self.dropout = 0.0

    for one in seams(functional, _FUNCTIONS).values():
        one.around(by_name)
    for one in seams(torch, _FUNCTIONS).values():
        one.around(by_place)
    seam(functional, "scaled_dot_product_attention").around(attention)
    seam(nn.RNNBase, "__init__").around(recurrent)
