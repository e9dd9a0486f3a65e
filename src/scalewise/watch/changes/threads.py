"""Makes torch use `count` threads in every rank, whatever the script or its environment asks for."""

from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "threads"
CHANGE = Declared(settings={"count": "whole"}, example="threads:count=1")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Sets the number now; the script's own setting of it is ignored."""
    count = int(settings["count"])
    torch.set_num_threads(count)
    recorder.intervene(NAME)

    def set_num_threads(call: Any, nthreads: int) -> None:
        recorder.intervene(NAME)

    seam(torch, "set_num_threads").around(set_num_threads)
