"""Records a few settled steps with CUPTI, through torch's profiler: how long the GPU was busy, with how many kernels.

It records only on a GPU, and never beside a profiler of the script's own.
"""

import inspect
import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.profiler import profile as autograd_profile

from scalewise.records.examination import DeviceWorkRow
from scalewise.watch import redirect
from scalewise.watch.examination.loop import EARLY_PASSES, Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.seams import Given, seam

SETTLED_WINDOWS = 8  # after those that are looked at closely
STEPS = 2
MOST_NAMES = 12
MOST_LETTERS = 120
_OPTIMIZER = "Optimizer.step#"
_LOG_LEVEL = "KINETO_LOG_LEVEL"
# Without it torch warns of profiler cycles, although none are used, and the script would print that.
_QUIET: dict[str, Any] = (
    {"acc_events": True} if "acc_events" in inspect.signature(torch.profiler.profile.__init__).parameters else {}
)


def install(notebook: Notebook) -> None:
    """Registers a callback after each step, and steps aside for a profiler of the script's own."""
    if redirect.is_on() or not (torch.version.cuda or torch.version.hip):
        return
    loop = loop_of(notebook)
    records = _Records(loop)
    loop.after_step.append(records.after_step)

    def profiler(args: tuple[Any, ...], kwargs: Given) -> None:
        if not records.starting:
            records.give_way()

    seam(autograd_profile, "__init__").before(notebook, profiler)


class _Records:
    """The recorder of one process, which records once."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._profiler: Any = None
        self._begin = 0  # the step after which it began
        self._done = False
        self.starting = False

    def give_way(self) -> None:
        """Ends the recording for good, because the script has a profiler: two cannot run at once."""
        self._done = True
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            try:
                profiler.stop()
            except Exception as error:
                self._loop.notebook.broke("device work", error)

    def after_step(self, step: int) -> None:
        """Begins or ends the recording between two steps."""
        if self._done:
            return
        loop = self._loop
        if self._profiler is None:
            settled = loop.backwards >= EARLY_PASSES and not loop.early and not loop.close
            if settled and not self._begin:
                self._begin = step + SETTLED_WINDOWS
            if self._begin and step >= self._begin:
                self._start(step)
        elif step >= self._begin + STEPS:
            self._end()

    def _start(self, step: int) -> None:
        if not torch.cuda.is_initialized() or torch._C._autograd._profiler_enabled():
            self._done = True
            return
        activities = torch.profiler.ProfilerActivity
        self.starting = True
        if _LOG_LEVEL not in os.environ:  # some versions of the profiler print when they begin and end
            os.putenv(_LOG_LEVEL, "99")
        try:
            profiler = torch.profiler.profile(activities=[activities.CPU, activities.CUDA], **_QUIET)
            torch.cuda.synchronize()  # what is left of earlier steps does not belong to this one
            profiler.start()
            self._profiler, self._begin = profiler, step
        except Exception:
            self._done = True
            raise
        finally:
            self.starting = False
            if _LOG_LEVEL not in os.environ:
                os.unsetenv(_LOG_LEVEL)

    def _end(self) -> None:
        profiler, self._profiler, self._done = self._profiler, None, True
        torch.cuda.synchronize()
        profiler.stop()
        events = profiler.profiler.kineto_results.events()
        self._loop.notebook.row(device_work(events, self._begin + 1, STEPS))


def device_work(events: Iterable[Any], step: int, steps: int) -> DeviceWorkRow:
    """The figures of a recording."""
    cuda = torch._C._autograd.DeviceType.CUDA
    spans: list[tuple[int, int]] = []
    kernels: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    copies: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    in_optimizer: list[tuple[int, int]] = []
    launches: list[int] = []
    for event in events:
        name, begin_ns, lasted_ns = event.name(), event.start_ns(), event.duration_ns()
        if event.device_type() != cuda:
            if name.startswith(_OPTIMIZER):
                in_optimizer.append((begin_ns, begin_ns + lasted_ns))
            elif "LaunchKernel" in name:
                launches.append(begin_ns)
        elif name.startswith(("Memcpy", "Memset")):
            spans.append((begin_ns, begin_ns + lasted_ns))
            _count(copies[name.removeprefix("Memcpy ")], lasted_ns)
        elif not event.is_user_annotation():
            spans.append((begin_ns, begin_ns + lasted_ns))
            _count(kernels[name[:MOST_LETTERS]], lasted_ns)
    slowest = sorted(kernels.items(), key=lambda one: -one[1][1])[:MOST_NAMES]
    return DeviceWorkRow(
        step=step,
        steps=steps,
        kernels=sum(count for count, _ in kernels.values()),
        busy_ns=_union_ns(spans),
        kernel_ns=sum(lasted for _, lasted in kernels.values()),
        span_ns=max((end for _, end in spans), default=0) - min((begin for begin, _ in spans), default=0),
        optimizer_kernels=sum(any(begin <= one <= end for begin, end in in_optimizer) for one in launches),
        copies={name: (count, lasted) for name, (count, lasted) in copies.items()},
        slowest={name: (count, lasted) for name, (count, lasted) in slowest},
    )


def _count(entry: list[int], lasted_ns: int) -> None:
    entry[0] += 1
    entry[1] += lasted_ns


def _union_ns(spans: list[tuple[int, int]]) -> int:
    """The time in which at least one of the spans was under way."""
    total = until = 0
    for begin, end in sorted(spans):
        if end > until:
            total += end - max(begin, until)
            until = end
    return total
