"""Writes down torch's switches that decide speed, as they are when a backward pass begins, whenever one has changed."""

import functools
import os
from typing import Any

import torch

from scalewise.records.examination import SettingsRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Reads the settings at every backward pass, because anomaly detection may be on around that alone."""
    loop = loop_of(notebook)
    settings = _Settings(loop)

    def look(tensors: list[torch.Tensor]) -> None:
        try:
            settings.look(tensors)
        except Exception as error:
            notebook.broke("settings", error)

    loop.on_backward.append(look)
    _see_switched_on(notebook, settings, torch.autograd.set_detect_anomaly, "__init__")
    # Its constructor warns about the line that calls it, which must stay the script's own.
    _see_switched_on(notebook, settings, torch.autograd.detect_anomaly, "__enter__")


def matmul_precision() -> str:
    """The precision of float32 matmuls on a GPU; torch refuses to name one that was set by the newer switch."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _distributed_debug() -> str:
    dist: Any = torch.distributed
    return str(dist.get_debug_level()).rpartition(".")[2] if dist.is_available() and dist.is_initialized() else "OFF"


class _Settings:
    """The settings that were written last."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._last: tuple[Any, ...] = ()
        self.anomaly_place = NOWHERE

    def look(self, tensors: list[torch.Tensor]) -> None:
        """Reads a few flags, none of which makes the host wait for a device."""
        gpu = next((one.device for one in tensors if one.device.type == "cuda"), None)
        now = (
            gpu,
            matmul_precision(),
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled(),
            torch.is_anomaly_enabled(),
            os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
            _distributed_debug(),
        )
        if now == self._last:
            return
        self._last = now
        _, precision, benchmark, deterministic, anomaly, blocking, debug = now
        row = SettingsRow(
            step=self._loop.windows + 1,
            device=torch.cuda.get_device_name(gpu) if gpu is not None else "",
            capability=torch.cuda.get_device_capability(gpu) if gpu is not None else (),
            matmul_precision=precision,
            cudnn_benchmark=benchmark,
            cudnn_deterministic=deterministic,
            anomaly=anomaly,
            anomaly_place=self.anomaly_place if anomaly else NOWHERE,
            launch_blocking=blocking,
            distributed_debug=debug,
        )
        self._loop.notebook.row(row)


def _see_switched_on(notebook: Notebook, settings: _Settings, kind: Any, method: str) -> None:
    original = getattr(kind, method)

    @functools.wraps(original)
    def switched_on(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        try:
            settings.anomaly_place = notebook.places.here()
        except Exception as error:
            notebook.broke("settings", error)

    setattr(kind, method, switched_on)
