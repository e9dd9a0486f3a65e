"""Multiplies the learning rate of each step: `scale_rate:by=0.5` for a script that doubles it with its ranks.

`by` may be a factor for each step, with semicolons; the last holds from then on.
"""

from collections.abc import Mapping
from typing import Any

from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

NAME = "scale_rate"
CHANGE = Declared(settings={"by": "words"}, example="scale_rate:by=0.5")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Changes the groups' rate for the time of the step, so that schedulers go on from the script's own."""
    factors = [float(word) for word in str(settings["by"]).split(";")]
    kept: list[tuple[Any, Any]] = []
    steps = 0

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not kept:
            recorder.intervene(NAME)
            for group in optimizer.param_groups:
                kept.append((group, group["lr"]))
                group["lr"] = group["lr"] * factors[min(steps, len(factors) - 1)]

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal steps
        steps += bool(kept)
        while kept:
            group, rate = kept.pop()
            group["lr"] = rate

    step_hooks.before(recorder, before, first=True)
    step_hooks.after(recorder, after)
