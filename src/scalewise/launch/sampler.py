"""Samples the machine beside a run: who uses the cores, how long tasks wait for them, what the GPUs do."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from scalewise.launch import nvml
from scalewise.records.codec import encode
from scalewise.records.machine import SampleRow

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
WORKER_LOOK_SHARE = 0.005  # of a core, for reading the memory of worker processes, which takes some milliseconds each


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot, over the cores that this process may use."""

    busy_seconds: float
    steal_seconds: float


@dataclass(frozen=True)
class _Look:
    """The processes that this one and its ranks have started, at one moment; each is read once, whoever asks for it.

    `psutil.Process.children` would read every process of the machine for each sample; the kernel lists those of one.
    """

    _children: dict[int, list[int]] = field(default_factory=dict)
    _seconds: dict[int, float] = field(default_factory=dict)

    def tree(self, pid: int) -> list[int]:
        """The process and all its descendants."""
        found = [pid]
        for each in found:
            if each not in self._children:
                self._children[each] = _children(each)
            found += self._children[each]
        return found

    def seconds(self, pid: int) -> float:
        """CPU time of the process and of all that it has started, ended or not."""
        return sum(self._own_seconds(each) for each in self.tree(pid))

    def _own_seconds(self, pid: int) -> float:
        """CPU time of one process and of its children that have ended."""
        if pid not in self._seconds:
            try:
                self._seconds[pid] = sum(psutil.Process(pid).cpu_times()[:4])
            except psutil.Error:
                self._seconds[pid] = 0.0
        return self._seconds[pid]


class Sampler:
    """A writer of samples, one row per call; what it cannot read is left out, and its errors never reach the run."""

    def __init__(self, path: Path, cores: Sequence[int], gpus: bool, start_ns: int) -> None:
        self._cores = tuple(cores)
        self._start_ns = start_ns
        self._gpus = gpus
        self._file: IO[str] | None = None
        self._at_ns = time.monotonic_ns()
        self._cpu = read_cpu_times(self._cores)
        self._pressure = read_pressure_seconds()
        self._ours = _Look().seconds(os.getpid())
        self._trees: dict[int, float] = {}
        self._workers_due_ns = 0
        try:
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        except OSError:
            return

    def sample(self, rank_pids: Sequence[int], rank_steps: Sequence[int] = ()) -> None:
        """Takes one sample; a pid of 0 stands for a rank that is not known yet."""
        try:
            row = self._row(rank_pids, rank_steps)
            if self._file is not None:
                self._file.write(json.dumps({"kind": "sample", **encode(row)}) + "\n")
                self._file.flush()
        except (OSError, ValueError):
            return

    def close(self) -> None:
        """Closes the file of samples; what was written stays."""
        try:
            if self._file is not None:
                self._file.close()
        except OSError:
            return

    def _row(self, rank_pids: Sequence[int], rank_steps: Sequence[int]) -> SampleRow:
        look = _Look()
        now_ns, cpu, ours = time.monotonic_ns(), read_cpu_times(self._cores), look.seconds(os.getpid())
        pressure = read_pressure_seconds()
        elapsed = max((now_ns - self._at_ns) * 1e-9, 1e-6)
        available = elapsed * max(len(self._cores), 1)
        ranks = tuple(self._cores_in_use(look, pid, elapsed) for pid in rank_pids)
        busy = (cpu.busy_seconds - self._cpu.busy_seconds) / available
        own = (ours - self._ours) / available
        steal = (cpu.steal_seconds - self._cpu.steal_seconds) / available
        waited = None if pressure is None or self._pressure is None else (pressure - self._pressure) / elapsed
        self._at_ns, self._cpu, self._ours, self._pressure = now_ns, cpu, ours, pressure
        return SampleRow(
            at_seconds=(now_ns - self._start_ns) * 1e-9,
            busy=_share(busy),
            foreign=_share(busy - own),
            steal=_share(steal),
            pressure=None if waited is None else _share(waited),
            rank_busy=tuple(round(cores, 4) for cores in ranks),
            gpus=nvml.samples() if self._gpus else (),
            rank_steps=tuple(rank_steps),
            worker_bytes=self._worker_bytes(look, rank_pids),
        )

    def _worker_bytes(self, look: _Look, rank_pids: Sequence[int]) -> tuple[int, ...]:
        """Private memory of what each rank has started; empty if it was read so recently that it is not read again."""
        now_ns = time.monotonic_ns()
        if now_ns < self._workers_due_ns:
            return ()
        found = tuple(sum(map(_private_bytes, look.tree(pid)[1:])) if pid else 0 for pid in rank_pids)
        self._workers_due_ns = now_ns + round((time.monotonic_ns() - now_ns) / WORKER_LOOK_SHARE)
        return found

    def _cores_in_use(self, look: _Look, pid: int, elapsed: float) -> float:
        if not pid:
            return 0.0
        total = look.seconds(pid)
        before = self._trees.get(pid, 0.0)  # a rank starts with its run
        self._trees[pid] = total
        return max(0.0, (total - before) / elapsed)


def read_cpu_times(cores: Iterable[int]) -> CpuTimes:
    """Busy and stolen time of those cores, from /proc/stat: `psutil` gives times by position, not by core's number."""
    wanted = {f"cpu{core}" for core in cores}
    busy = steal = 0
    for line in system_file("/proc/stat").splitlines():
        name, *numbers = line.split() or [""]
        if name in wanted:
            user, nice, system, _, _, irq, soft_irq, stolen = map(int, numbers[:8])
            busy += user + nice + system + irq + soft_irq
            steal += stolen
    return CpuTimes(busy / _TICKS_PER_SECOND, steal / _TICKS_PER_SECOND)


def read_pressure_seconds() -> float | None:
    """Time since boot in which some task waited for a core; None if the kernel does not say."""
    for line in system_file("/proc/pressure/cpu").splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2]) * 1e-6
    return None


def _children(pid: int) -> list[int]:
    """The processes that this one has started and that still exist."""
    return [int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in system_file(str(task)).split()]


def _private_bytes(pid: int) -> int:
    """Memory that a process shares with no other: a worker's own copies count, inherited pages do not."""
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except psutil.Error:
        return 0


def _share(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 4)


def system_file(path: str) -> str:
    """The text of a file of /proc or /sys; empty if it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
