"""Notes in which modes torch works: mixed precision and its scaler, the switches that decide speed, compilation."""

import os
import sys
from time import perf_counter_ns
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from scalewise.records.examination import SettingsRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.examination.tensors import number, readable
from scalewise.watch.imports import after_import
from scalewise.watch.seams import Given, Looks, Outermost, seam, seams

MOST_LETTERS = 300  # of a guard


def install(notebook: Notebook) -> None:
    """Looks at the base classes of mixed precision, so that torch.cuda.amp's are seen, too, at switches and compiling.

    Settings are read at every backward pass, because anomaly detection may be on around that alone.
    """
    loop = loop_of(notebook)
    _see_precision(loop)
    settings = Settings(loop)
    loop.on_backward.append(settings.look)

    def anomaly(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        settings.anomaly_place = notebook.places.here()

    seam(torch.autograd.set_detect_anomaly, "__init__").after(notebook, anomaly)
    # Its constructor warns about the line that calls it, which must stay the script's own.
    seam(torch.autograd.detect_anomaly, "__enter__").after(notebook, anomaly)

    def compiling() -> None:
        try:
            _see_compiling(notebook)
        except Exception as error:
            notebook.broke("compiling", error)

    after_import("torch._dynamo", compiling)


def _see_precision(loop: Loop) -> None:
    """Notes the script's own calls: not `unscale_` inside the scaler's step, nor `scale` of each item of a list."""
    notebook, numbers = loop.notebook, ObjectNumbers()

    def on_scaler(scaler: GradScaler, call: str) -> None:
        known = numbers.of(scaler)
        index = numbers.give(scaler) if known is None else known
        notebook.note("scaler", call, index, _scale(loop, scaler))

    def autocasts(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
        context = receiver(args, kwargs)
        if context._enabled and torch.is_grad_enabled():
            notebook.note("autocast", context.device, str(context.fast_dtype).removeprefix("torch."))

    loop.on_scaler = on_scaler  # its step is noted when it is called
    for name in ("scale", "unscale_", "update"):
        _see_scaler(loop, name)
    seam(autocast, "__enter__").after(notebook, autocasts)


def _see_scaler(loop: Loop, name: str) -> None:
    def scaler(args: tuple[Any, ...], kwargs: Given) -> Looks:
        called = receiver(args, kwargs)
        if not loop.scaling and called._enabled:
            yield
            loop.on_scaler(called, name)

    seam(GradScaler, name).during(loop.notebook, scaler, Outermost())


def _scale(loop: Loop, scaler: GradScaler) -> float | None:
    scale = scaler._scale
    if scale is None:
        return None
    return number(scale) if readable(scale, loop.early) else None


# ---- switches


def matmul_precision() -> str:
    """The precision of float32 matmuls on a GPU; torch refuses to name one that was set by the newer switch."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _distributed_debug() -> str:
    dist: Any = torch.distributed
    return str(dist.get_debug_level()).rpartition(".")[2] if dist.is_available() and dist.is_initialized() else "OFF"


class Settings:
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


# ---- compiling


def _see_compiling(notebook: Notebook) -> None:
    """Looks at private functions: dynamo first asks for the reasons of a recompilation, then `_compile` compiles."""
    frames: Any = sys.modules["torch._dynamo.convert_frame"]
    reasons, compiles = seams(frames, ("get_and_maybe_log_recompilation_reasons", "_compile")).values()
    frame_of, code_of = Argument(reasons.original, "frame"), Argument(compiles.original, "code")
    failed: list[tuple[str, str]] = []  # function and guard of the compilation under way

    def recompiling(args: tuple[Any, ...], kwargs: Given, found: Any) -> None:
        failed[:] = [(_name(frame_of.of(args, kwargs).f_code), _guard(found[0] if found else ""))]

    def compiling(args: tuple[Any, ...], kwargs: Given) -> Looks:
        failed.clear()
        began_ns = perf_counter_ns()
        try:
            yield
        finally:
            function, guard = failed[0] if failed else (_name(code_of.of(args, kwargs)), "")
            notebook.note("compile", function, guard, perf_counter_ns() - began_ns)
            failed.clear()

    reasons.after(notebook, recompiling)
    compiles.during(notebook, compiling)


def _name(code: Any) -> str:
    name, file, line = (getattr(code, key, "") for key in ("co_name", "co_filename", "co_firstlineno"))
    return f"{name} ({file}:{line})"


def _guard(reason: Any) -> str:
    """The guard alone: of `0/1: self.calls == 0  # self.calls += 1  # train.py:18 in forward` the condition."""
    text = str(reason).strip().partition("\n")[0].partition("  #")[0].strip()
    number, colon, rest = text.partition(": ")
    return (rest if colon and number.replace("/", "").isdigit() else text)[:MOST_LETTERS] or "a guard that has no name"
