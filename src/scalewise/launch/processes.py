"""Reads from the kernel what processes do that others have started."""

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_runs(pid: int) -> bool:
    """Tells whether a process with this number exists and is not yet a zombie."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def child_processes(pid: int) -> list[int]:
    """The processes that this one has started and that still exist."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, children.read_text().split())
        except OSError:
            continue
    return found


def process_tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for each in found:
        found += child_processes(each)
    return found


def process_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended."""
    return sum(map(int, _stat_fields(pid)[11:15])) / TICKS_PER_SECOND


def queued_seconds(pid: int) -> float:
    """The time for which the process's main thread was ready but waited for a core; 0 if the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def private_bytes(pid: int) -> int:
    """Memory that a process shares with no other: a worker's own copies count, inherited pages do not."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the process's state on; empty if it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
