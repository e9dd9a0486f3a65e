"""Sets up the rank's process: its share of cores, its threads, its end with its parent, and stack dumps if it hangs."""

import ctypes
import faulthandler
import os
import signal
import sys
from typing import IO

from scalewise.records.folder import RunFolder
from scalewise.records.pulse import STACK_SIGNAL
from scalewise.records.spec import RunSpec

PR_SET_PDEATHSIG = 1
_open_files: list[IO[str]] = []  # faulthandler keeps only the descriptor: the file object must outlive it


def pin_and_register(spec: RunSpec, out: RunFolder, rank: int, local_rank: int) -> None:
    """Pins the process, ties its life to its parent's and makes its stacks available on request."""
    if spec.shares and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, spec.shares[local_rank % len(spec.shares)])
    die_with_parent()
    answer_with_stacks(out, rank)


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies, so that a killed launcher leaves no rank behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def answer_with_stacks(out: RunFolder, rank: int) -> None:
    """Sends Python stacks to a file of their own on the launcher's signal and on a crash; stderr stays the script's."""
    file = open(out.stack(rank), "a", encoding="utf-8")  # noqa: SIM115
    _open_files.append(file)
    faulthandler.enable(file)
    faulthandler.register(STACK_SIGNAL, file, all_threads=True, chain=False)


def set_threads(spec: RunSpec) -> None:
    """Sets as many threads as the rank's share; a new interpreter reads OMP_NUM_THREADS, a forked one cannot."""
    if spec.threads_per_rank is not None:
        import torch

        if torch.get_num_threads() != spec.threads_per_rank:
            torch.set_num_threads(spec.threads_per_rank)
