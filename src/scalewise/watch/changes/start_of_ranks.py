"""Starts one rank from the parameters of another run's ranks, put together from their parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scalewise.records.changes import AxisValue, Declared
from scalewise.records.parity import GIVEN_FILE
from scalewise.watch.parity.given import read_given
from scalewise.watch.parity.tensor_rows import plain_name
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "start_of_ranks"
CHANGE = Declared(settings={"folder": "words", "ranks": "whole"}, example="start_of_ranks:ranks=2,folder=run")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the call of modules: each is given its start when it is first called to be trained."""
    folder, ranks = Path(str(settings["folder"])), int(settings["ranks"])
    given = [read_given(folder / GIVEN_FILE.format(rank)) for rank in range(ranks)]
    started: set[int] = set()
    inside = False

    def __call__(call: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside or recorder.backward_depth or not torch.is_grad_enabled() or id(module) in started:
            return call(module, *args, **kwargs)
        started.add(id(module))
        inside = True
        try:
            for name, one in module.named_parameters():
                found = [value for held in given if (value := held.get(("start", plain_name(name)))) is not None]
                if len(found) == ranks and _put_together(one, found):
                    recorder.intervene(NAME)
        except Exception as error:
            recorder.broke(f"change {NAME}", error)
        finally:
            inside = False
        return call(module, *args, **kwargs)

    seam(nn.Module, "__call__").around(__call__)


def _put_together(parameter: Any, parts: list[Any]) -> bool:
    """Fills a whole parameter; False if the parts do not make it up."""
    local = getattr(parameter, "_local_tensor", parameter).data
    if any(tuple(shape) != tuple(local.shape) for shape, _, _ in parts):
        return False
    flat = local.reshape(-1).clone()
    for _, values, places in reversed(parts):
        if places is None:
            flat = values.to(flat)
        else:
            flat[places] = values.to(flat)
    with torch.no_grad():
        local.copy_(flat.view_as(local))
    return True
