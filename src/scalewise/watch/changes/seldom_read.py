"""Makes named lines read a tensor of the GPU once in fifty times, and get the last value they read otherwise.

`lines`: `train.py:31,train.py:40`. What depends on the value uses an old one, so only the times of such a run are
valid.
"""

import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.examination.device_traffic import READS
from scalewise.watch.examination.places import Places
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import caller, seams

NAME = "seldom_read"
CHANGE = Declared(settings={"lines": "words"}, example="seldom_read:lines=12,15", between_steps=True)
EVERY = 50


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps every method by which the host reads a tensor."""
    lines = frozenset(str(settings["lines"]).split(","))
    places = Places(lambda row: None)
    kept: dict[tuple[Any, ...], list[Any]] = {}  # last value and how often it was given
    inside = False

    def wrapped(name: str) -> Any:
        def read(call: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or not self.is_cuda or not recorder.started:
                return call(self, *args, **kwargs)
            line = _line(places, caller())
            if line not in lines:
                return call(self, *args, **kwargs)
            key = (line, name, tuple(self.shape), self.dtype, str(args))
            known = kept.get(key)
            if known is not None and known[1] < EVERY:
                known[1] += 1
                recorder.intervene(NAME)
                return known[0].clone() if isinstance(known[0], torch.Tensor) else known[0]
            inside = True
            try:
                result = call(self, *args, **kwargs)
            finally:
                inside = False
            if not (isinstance(result, torch.Tensor) and result.is_cuda):  # `to` another device or type reads nothing
                kept[key] = [result, 0]
            return result

        return read

    for name, reads in seams(torch.Tensor, (*READS, "to")).items():
        reads.around(wrapped(name))


def _line(places: Places, frame: FrameType | None) -> str:
    """The innermost line of the script on the stack."""
    while frame is not None:
        if places.of_user(frame.f_code):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
