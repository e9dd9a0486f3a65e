"""Reads peaks of a GPU's memory stretch by stretch, while the script goes on seeing those of its whole run.

Torch's allocator keeps one peak, since the start or since somebody reset it. The first steps may set it: DDP holds its
old and its new buckets at once while it rebuilds them, and whether the two overlap is chance. So the watcher resets the
peak at sampled steps. What the script would have seen without that is kept and put back into every answer, at the
lowest place in Python that all of torch's questions go through.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from scalewise.watch import redirect
from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder

# The functions by which torch.cuda and torch.accelerator ask the same allocator, and reset its peaks.
ASK = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
RESET = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")
Stats = dict[str, Any]  # of torch: numbers, and tables of numbers, in which `peak` is the highest that was reached


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps the functions if there may be a GPU; the probe then reads the peak of each stretch."""
    if redirect.is_on() or not (torch.version.cuda or torch.version.hip):
        return
    functions = torch._C
    peaks = PeakStretches(getattr(functions, ASK[0]), getattr(functions, RESET[0]))
    for name in ASK:
        if hasattr(functions, name):
            setattr(functions, name, _answering(recorder, peaks, getattr(functions, name)))
    for name in RESET:
        if hasattr(functions, name):
            setattr(functions, name, _resetting(recorder, peaks, getattr(functions, name)))
    probe.gpu_peaks = peaks


class PeakStretches:
    """The allocator's peaks cut into stretches; `ask` and `reset` are torch's own functions of a device's index."""

    def __init__(self, ask: Callable[[int], Stats], reset: Callable[[int], object]) -> None:
        self._ask, self._reset = ask, reset
        self._hidden: dict[int, Stats] = {}  # peaks before our last reset that the script has not reset itself
        self._before_reset: dict[int, int] = {}  # of the present stretch, before the script reset the allocator's peak

    def end_stretch(self, device: int) -> int:
        """The most bytes that were allocated since the last call; begins the next stretch."""
        stats = self._ask(device)
        self._hidden[device] = self.as_alone(device, stats)
        self._reset(device)
        return max(_allocated(stats), self._before_reset.pop(device, 0))

    def as_alone(self, device: int, stats: Stats) -> Stats:
        """The answer that the allocator would have given, had only the script reset it."""
        hidden = self._hidden.get(device)
        return stats if hidden is None else _with_higher_peaks(stats, hidden)

    def script_resets(self, device: int) -> None:
        """Keeps what the present stretch has reached, before the script's own reset."""
        self._before_reset[device] = max(_allocated(self._ask(device)), self._before_reset.get(device, 0))
        self._hidden.pop(device, None)


def _allocated(stats: Stats) -> int:
    return int(stats["allocated_bytes"]["all"]["peak"])


def _with_higher_peaks(stats: Stats, other: Stats) -> Stats:
    return {
        key: _with_higher_peaks(value, other.get(key, {}))
        if isinstance(value, dict)
        else max(value, other.get(key, value))
        if key == "peak"
        else value
        for key, value in stats.items()
    }


def _answering(recorder: Recorder, peaks: PeakStretches, original: Callable[..., Stats]) -> Callable[..., Stats]:
    @functools.wraps(original)
    def ask(*args: Any, **kwargs: Any) -> Stats:
        stats = original(*args, **kwargs)
        try:
            return peaks.as_alone(_device_of(args), stats)
        except Exception as error:
            recorder.broke("hooks/memory", error)
            return stats

    return ask


def _resetting(recorder: Recorder, peaks: PeakStretches, original: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(original)
    def reset(*args: Any, **kwargs: Any) -> object:
        try:
            peaks.script_resets(_device_of(args))
        except Exception as error:
            recorder.broke("hooks/memory", error)
        return original(*args, **kwargs)

    return reset


def _device_of(args: tuple[Any, ...]) -> int:
    """The device's index, the only argument of torch's functions in C++."""
    return int(args[0])
