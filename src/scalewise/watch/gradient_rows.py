"""Writes the gradients of a replay's first optimizer steps in four numbers, so that two runs can be compared."""

from typing import Any

from torch.optim.optimizer import Optimizer

from scalewise.watch.inspection.gradients import gradient_row
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

STEPS = 4  # the first is enough to compare; those after it show that it was no accident


def install(recorder: Recorder) -> None:
    """Registers a look before each step that really runs: by then scalers have unscaled and clips have clipped."""
    left = STEPS

    def show_gradients(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal left
        if left <= 0:
            return
        left -= 1
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        scale: Any = getattr(optimizer, "grad_scale", None)  # a fused optimizer divides by it itself
        row = gradient_row(recorder.step, parameters, 1.0 if scale is None else float(scale))
        if row is not None:
            recorder.journal.row(row)

    step_hooks.before(recorder, show_gradients)
