"""One training step run in several ways: raw, watched or examined, under torch.profiler, and through accelerate."""

import ctypes
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the first optimizer would import it, in every process anew
import torch.profiler
from torch import nn

from bench.forked import Times
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder
from scalewise.records.pulse import create_pulses
from scalewise.records.spec import Examined, RunSpec, Timed
from scalewise.watch.arm import arm_rank

# A GPU machine may not have it.
accelerate: Any = importlib.import_module("accelerate") if importlib.util.find_spec("accelerate") else None

WARMUP_BLOCKS = 2
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
ARMS = ("raw", "watched", "profiler") + (("accelerate",) if accelerate is not None else ())


@dataclass(frozen=True)
class Step:
    """What is timed: a stack of Linear+ReLU layers, mean squared error, plain SGD."""

    dim: int
    depth: int
    batch: int
    steps: int  # in a block
    device: str
    core: int | None = None

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def block_of_steps(step: Step, arm: str) -> Callable[[], Times]:
    """Sets the arm up in this process, warms it up, and gives back a function that times a block of steps.

    Both clocks run over the whole block, so everything an arm does between steps is in their times.
    """
    if step.core is not None:
        os.sched_setaffinity(0, {step.core})
    if step.device == "cpu":
        torch.set_num_threads(1)
        keep_freed_memory()
    if arm in ("watched", "examined"):
        watch(Path(tempfile.mkdtemp(prefix="scalewise-bench-")), step, examine=arm == "examined")
    one, wait = prepared(step, arm)
    profile = profiler(step.device) if arm == "profiler" else None

    def block() -> Times:
        wait()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(step.steps):
            one()
        wait()
        return (time.perf_counter() - wall) / step.steps, (time.process_time() - cpu) / step.steps

    if profile is not None:
        start_quietly(profile)
    for _ in range(WARMUP_BLOCKS):
        block()
    return block


def keep_freed_memory() -> None:
    """Tells glibc not to give freed gradients back to the system.

    Whether it does depends on what happens to lie on top of the heap, and faulting them in again costs up to a third of
    a step: with its default, this luck would be the largest difference between the arms.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def prepared(step: Step, arm: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """The step as a function, and how to wait for the device."""
    torch.manual_seed(0)
    device = torch.device(step.device)
    layers = [layer for _ in range(step.depth) for layer in (nn.Linear(step.dim, step.dim), nn.ReLU())]
    model: Any = nn.Sequential(*layers).to(device)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(2, step.batch, step.dim, device=device)
    mse = nn.functional.mse_loss
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def plain() -> None:
        optimizer.zero_grad()
        mse(model(x), y).backward()
        optimizer.step()

    if arm != "accelerate":
        return plain, wait
    accelerator = accelerate.Accelerator(cpu=device.type == "cpu")
    model, optimizer = accelerator.prepare(model, optimizer)

    def accelerated() -> None:
        optimizer.zero_grad()
        accelerator.backward(mse(model(x), y))
        optimizer.step()

    return accelerated, wait


def profiler(device: str) -> torch.profiler.profile:
    """As the first example of its documentation has it; what it does when it stops is not timed."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, acc_events=True)


def start_quietly(profile: torch.profiler.profile) -> None:
    """Its native part announces every start on standard error."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    profile.start()
    os.dup2(kept, 2)
    os.close(kept)
    os.close(nowhere)


def watch(folder: Path, step: Step, examine: bool = False) -> None:
    """Arms the watcher as a launcher would, records and all; for the doctor, too, where asked."""
    spec = RunSpec(
        name="bench",
        suite="bench",
        experiment="overhead",
        script=__file__,
        args=(),
        cwd=str(folder),
        mode="python",
        launcher="fork",
        ranks=1,
        device="cuda" if step.device == "cuda" else "cpu",
        shares=(),
        threads_per_rank=None,
        oversubscribed=False,
        repeat=0,
        limit_seconds=600.0,
        stall_seconds=600.0,
        kind=Examined() if examine else Timed(),
    )
    out = RunFolder(folder)
    write_json(out.spec, spec)
    create_pulses(out.pulses, 1)
    arm_rank(out.spec, folder)
