"""Collects the facts of this machine: cores, memory, GPUs, versions, and the instruction set that really works."""

import hashlib
import mmap
import os
import platform
import signal
import sys
import time
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import scalewise
from scalewise.launch import nvml
from scalewise.launch.forkserver import ForkServer, ServerDied, Servers, user_environment
from scalewise.launch.sampler import system_file
from scalewise.records.codec import read_json_or_none, write_json
from scalewise.records.machine import MachineFacts, PrecisionProbe
from scalewise.records.orders import ProbeOrder

PRECISIONS = ("float32", "bfloat16", "float16")
CAPS = ("", "AVX512_CORE_FP16", "AVX512_CORE", "AVX2")  # widest first
WORKS = "works"
RAISES = "raises an error"
_PROBE_SECONDS = 60.0
PAGES, PAGE_TRIES = 1000, 3
_ISA_FLAGS = (
    "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "bf16", "sve", "i8mm",
)  # fmt: skip


@dataclass(frozen=True)
class TorchFacts:
    """Facts that only a process with torch can find out; kept in the user's cache because it takes seconds."""

    probes: tuple[PrecisionProbe, ...]
    isa_cap: str
    versions: dict[str, str]


def machine_facts(servers: Servers) -> MachineFacts:
    """Facts of this machine; a fork server is started only if nothing is known about its precisions yet."""
    cpu = _cpu_info()
    flags = tuple(flag for flag in _ISA_FLAGS if flag in cpu.get("flags", cpu.get("Features", "")).split())
    model = cpu.get("model name", platform.processor() or platform.machine())
    of_torch = _torch_facts(servers, model, flags)
    driver = nvml.driver_version()
    versions = {"python": platform.python_version(), "scalewise": scalewise.__version__, **of_torch.versions}
    return MachineFacts(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu_model=model,
        cores=usable_cores(),
        memory_bytes=_memory_bytes(),
        governor=_governor(),
        virtual="hypervisor" in cpu.get("flags", "").split(),
        isa_advertised=flags,
        isa_cap=of_torch.isa_cap,
        probes=of_torch.probes,
        gpus=nvml.facts(),
        versions=versions | ({"driver": driver} if driver else {}),
        page_seconds=page_seconds(),
    )


def facts_like(other: MachineFacts, servers: Servers) -> MachineFacts:
    """Facts of this machine; what takes seconds to find out is taken over from a machine of the same kind."""
    cpu = _cpu_info()
    model = cpu.get("model name", platform.processor() or platform.machine())
    own = model, _version("torch"), platform.python_version()
    if own != (other.cpu_model, other.versions.get("torch"), other.versions.get("python")):
        return machine_facts(servers)
    return replace(
        other,
        host=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=usable_cores(),
        memory_bytes=_memory_bytes(),
        governor=_governor(),
        gpus=nvml.facts(),
        peaks=(),
        page_seconds=page_seconds(),
    )


def usable_cores() -> tuple[int, ...]:
    """The cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def probe_precisions(server: ForkServer) -> tuple[tuple[PrecisionProbe, ...], str]:
    """Tries every precision under ever narrower caps until none dies; returns all results, and that cap."""
    probes: list[PrecisionProbe] = []
    for cap in CAPS:
        round_ = [PrecisionProbe(precision, cap, _probe(server, precision, cap)) for precision in PRECISIONS]
        probes += round_
        if all(probe.result in (WORKS, RAISES) for probe in round_):
            return tuple(probes), cap
    return tuple(probes), CAPS[-1]


def _probe(server: ForkServer, precision: str, cap: str) -> str:
    server.order(ProbeOrder("probe", precision, cap))
    code = int(server.wait_for("ended", _PROBE_SECONDS)["code"])
    if code == 0:
        return WORKS
    return signal.Signals(-code).name if code < 0 else RAISES


def _torch_facts(servers: Servers, model: str, flags: tuple[str, ...]) -> TorchFacts:
    key = repr((model, flags, sys.executable, _version("torch"), scalewise.__version__))
    path = cache_folder() / f"precisions-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    kept = read_json_or_none(path, TorchFacts)
    if kept is not None:
        return kept
    try:
        server = servers.get("", str(Path.cwd()), user_environment(), preload=True)
        probes, cap = probe_precisions(server)
    except ServerDied:
        return TorchFacts((), "", {"torch": _version("torch")})
    of_torch = TorchFacts(probes, cap, server.versions)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, of_torch)
    except OSError:
        return of_torch
    return of_torch


def cache_folder() -> Path:
    """The folder in which facts about this machine are kept for later."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "scalewise"


def _cpu_info() -> dict[str, str]:
    """The first processor's entries in /proc/cpuinfo."""
    lines = system_file("/proc/cpuinfo").partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _memory_bytes() -> int:
    """The memory that this process may use: the machine's, or less if its control group has a limit."""
    total = int(psutil.virtual_memory().total)
    # `psutil` does not know the limits of control groups.
    limits = [system_file(f"/sys/fs/cgroup/{name}") for name in ("memory.max", "memory/memory.limit_in_bytes")]
    return min([total, *(int(text) for text in limits if text.strip().isdigit())])


def _governor() -> str | None:
    return system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def page_seconds() -> float:
    """The seconds that this machine takes to give a process a page of memory: the least of a few tries.

    They are those of a first touch, beyond those of a later one.
    """
    return min(_page_seconds_once() for _ in range(PAGE_TRIES))


def _page_seconds_once() -> float:
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        first, again = _touched(memory), _touched(memory)
    return max(0.0, first - again) / PAGES


def _touched(memory: mmap.mmap) -> float:
    began = time.perf_counter()
    for at in range(0, PAGES * mmap.PAGESIZE, mmap.PAGESIZE):
        memory[at] = 1
    return time.perf_counter() - began
