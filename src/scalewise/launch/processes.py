"""Reads from /proc what processes have started and used, by a few files each, because ranks run beside it.

`psutil` reads more: for the children of one process it reads all of the machine. It is asked where there is no /proc.
"""

import os
from pathlib import Path

import psutil

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CPU_TIMES = slice(11, 15)  # places in /proc/PID/stat after the name: own times, and those of children that have ended


def children_of(pid: int) -> list[int]:
    """The processes that this one has started and that still exist."""
    lists = list(Path(f"/proc/{pid}/task").glob("*/children"))
    if lists:
        return [int(one) for children in lists for one in system_file(str(children)).split()]
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def cpu_seconds(pid: int) -> float:
    """CPU time of one process and of its children that have ended; 0 if it is gone."""
    fields = system_file(f"/proc/{pid}/stat").rpartition(")")[2].split()  # the name may hold blanks and brackets
    if fields:
        return sum(map(int, fields[_CPU_TIMES])) / _TICKS_PER_SECOND
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    except psutil.Error:
        return 0.0


def system_file(path: str) -> str:
    """The text of a file of /proc or /sys; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
