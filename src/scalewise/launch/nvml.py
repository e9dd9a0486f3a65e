"""Reads NVIDIA GPUs from the driver's management library; empty if there is no driver."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from scalewise.records.machine import GpuFacts, GpuSample

Value = TypeVar("Value")


def facts() -> tuple[GpuFacts, ...]:
    """The facts of every GPU of the machine."""
    library = _library()
    if library is None:
        return ()
    return tuple(_facts(library, *each) for each in enumerate(_handles()))


def _facts(library: Any, index: int, handle: Any) -> GpuFacts:
    return GpuFacts(
        index=index,
        name=_or(lambda: _text(library.nvmlDeviceGetName(handle)), "unknown"),
        memory_bytes=_or(lambda: int(library.nvmlDeviceGetMemoryInfo(handle).total), 0),
        uuid=_or(lambda: _text(library.nvmlDeviceGetUUID(handle)), ""),
    )


def driver_version() -> str | None:
    """The driver's version; None without a driver."""
    library = _library()
    return None if library is None else _or(lambda: _text(library.nvmlSystemGetDriverVersion()), None)


def samples() -> tuple[GpuSample, ...]:
    """A sample of every GPU at this moment. The energy counter is not read: that takes milliseconds."""
    library = _library()
    return () if library is None else tuple(_sample(library, *each) for each in enumerate(_handles()))


def _sample(library: Any, index: int, handle: Any) -> GpuSample:
    return GpuSample(
        index=index,
        utilisation=_or(lambda: library.nvmlDeviceGetUtilizationRates(handle).gpu / 100, None),
        memory_bytes=_or(lambda: int(library.nvmlDeviceGetMemoryInfo(handle).used), None),
        sm_clock_mhz=_or(lambda: int(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)), None),
        power_watts=_or(lambda: library.nvmlDeviceGetPowerUsage(handle) / 1000, None),
        temperature_celsius=_or(
            lambda: int(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)), None
        ),
        throttle_reasons=_or(
            lambda: reason_names(library, library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)), ()
        ),
    )


def reason_names(library: Any, bits: int) -> tuple[str, ...]:
    """The library's own names of the reasons for which a clock is below its maximum: SwPowerCap, HwSlowdown, ..."""
    prefix = "nvmlClocksThrottleReason"
    names = {
        getattr(library, name): name.removeprefix(prefix)
        for name in dir(library)
        if name.startswith(prefix) and name not in (f"{prefix}sAll", f"{prefix}All", f"{prefix}None")
    }
    return tuple(sorted(name for bit, name in names.items() if isinstance(bit, int) and bit and bits & bit))


@cache
def _library() -> Any:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        # No package, no driver, or a driver that does not answer: all mean that there is no GPU to read.
        return None
    return pynvml


@cache
def _handles() -> tuple[Any, ...]:
    library = _library()
    return tuple(library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount()))


def _or(read: Callable[[], Value], otherwise: Value) -> Value:
    """The value from the driver, or the other value if this GPU does not give it."""
    try:
        return read()
    except Exception:
        return otherwise


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
