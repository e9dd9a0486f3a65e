"""Switches dropout off: the masks of a rank's samples cannot be those of the same samples in another batch."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.recorder import Recorder

NAME = "no_dropout"
CHANGE = Declared()
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces torch's functions for dropout, and the probability that attention and recurrent layers are given."""
    for name in _FUNCTIONS:
        for owner in (functional, torch):
            if hasattr(owner, name):
                setattr(owner, name, _switched_off(recorder, getattr(owner, name)))
    attention = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = _attention(recorder, attention)
    original = nn.RNNBase.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.dropout:
            recorder.intervene(NAME)
            self.dropout = 0.0

    nn.RNNBase.__init__ = __init__  # type: ignore[method-assign]


def _switched_off(recorder: Recorder, original: Any) -> Any:
    try:
        chance, trains = Argument(original, "p"), Argument(original, "training")
    except ValueError:  # a builtin: dropout(input, p, train)
        return _switched_off_builtin(recorder, original)

    @functools.wraps(original)
    def dropout(*args: Any, **kwargs: Any) -> Any:
        if trains.of(args, kwargs, True) and chance.of(args, kwargs, 0.5):
            recorder.intervene(NAME)
            args, kwargs = trains.replaced(False, args, kwargs)
        return original(*args, **kwargs)

    return dropout


def _switched_off_builtin(recorder: Recorder, original: Any) -> Any:
    @functools.wraps(original)
    def dropout(input: Any, p: float, train: bool) -> Any:
        if train and p:
            recorder.intervene(NAME)
        return original(input, p, False)

    return dropout


def _attention(recorder: Recorder, original: Any) -> Any:
    @functools.wraps(original)
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dropout_p"):
            recorder.intervene(NAME)
            kwargs = {**kwargs, "dropout_p": 0.0}
        if len(args) > 4 and args[4]:
            recorder.intervene(NAME)
            args = (*args[:4], 0.0, *args[5:])
        return original(*args, **kwargs)

    return scaled_dot_product_attention
