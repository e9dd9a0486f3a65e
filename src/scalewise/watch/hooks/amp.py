"""Notes mixed precision: the dtype of autocast, the scale, the unscaled loss, and the steps a GradScaler skips."""

import functools
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from scalewise.records.events import AUTOCAST, LOSS, SCALER
from scalewise.watch.hooks.backward import loss_of
from scalewise.watch.hooks.optimizer import note_step_function
from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder

_NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps the classes, so that every instance and every alias (torch.cuda.amp) is seen."""
    _wrap_autocast(recorder)
    _wrap_scale(recorder)
    _wrap_step(recorder, probe)


def _wrap_autocast(recorder: Recorder) -> None:
    original: Any = autocast.__enter__

    @functools.wraps(original)
    def enter(self: autocast) -> Any:
        result = original(self)
        try:
            if recorder.on and recorder.awake and self._enabled and torch.is_grad_enabled():
                recorder.note(AUTOCAST, _NAMES.get(self.fast_dtype, str(self.fast_dtype)))
        except Exception as error:
            recorder.broke("autocast", error)
        return result

    autocast.__enter__ = enter  # type: ignore[method-assign]


def _wrap_scale(recorder: Recorder) -> None:
    original = GradScaler.scale

    @functools.wraps(original)
    def scale(self: GradScaler, outputs: Any) -> Any:
        if recorder.on and recorder.awake and self._enabled:
            try:
                recorder.note(LOSS, loss_of(recorder, outputs))
                recorder.loss_shown = True
            except Exception as error:
                recorder.broke("scale", error)
        return original(self, outputs)

    GradScaler.scale = scale  # type: ignore[method-assign]


def _wrap_step(recorder: Recorder, probe: TorchProbe) -> None:
    original = GradScaler.step

    @functools.wraps(original)
    def step(self: GradScaler, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not recorder.on:
            return original(self, optimizer, *args, **kwargs)
        recorder.may_rest = False  # a skipped step must not be missed
        ran_before, depth = recorder.optimizer_steps, recorder.optimizer_depth
        try:
            recorder.optimizer_begin(probe.index_of(optimizer))
        except Exception as error:
            recorder.broke("scaler", error)
        try:
            result = original(self, optimizer, *args, **kwargs)
        except BaseException:
            try:
                recorder.drop_step(depth)
            except Exception as error:
                recorder.broke("scaler", error)
            raise
        try:
            skipped = recorder.optimizer_steps == ran_before
            recorder.note(SCALER, skipped, _scale_of(self, always=skipped or recorder.sampled))
            recorder.optimizer_end(probe.index_of(optimizer))
        except Exception as error:
            recorder.broke("scaler", error)
        return result

    note_step_function(step.__code__)  # type: ignore[attr-defined]
    GradScaler.step = step  # type: ignore[method-assign]


def _scale_of(scaler: GradScaler, always: bool) -> float | None:
    """The scale; on a GPU it is read at sampled and skipped steps only, because reading it makes the host wait."""
    scale = scaler._scale if scaler._enabled else None
    if scale is None or (scale.is_cuda and not always):
        return None
    return float(scale.item())
