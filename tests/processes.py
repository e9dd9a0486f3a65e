"""Whether a process of another still runs."""

import psutil


def process_runs(pid: int) -> bool:
    """True if a process with this number exists and is not a zombie, which nobody may ever collect in a container."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
