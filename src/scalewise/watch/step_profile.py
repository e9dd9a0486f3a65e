"""Profiles one step with torch's profiler: how long the device was busy, with which kernels, for which operators.

It is not for timed runs: the profiler slows the host down. To profile a step, a caller uses `prepare` some step before,
`begin` and `end` around it, then `read`. Nothing here changes what the script computes or prints.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType, _profiler_enabled
from torch.profiler import ProfilerActivity, profile, record_function

from scalewise.records.inspection import FAMILIES, HOST
from scalewise.watch.families import family_of
from scalewise.watch.operation_counts import FORMULAS, flops_of_event, precision_of
from scalewise.watch.seams import Given, Guard, seam

MARK = "scalewise: mark"
MARKS = 4
THE_SCRIPT_PROFILES = "the script uses a profiler of its own"
SHOWN_NAMES = 5
_HEAVY = ("matmul", "attention", "convolution", "other")  # work that a formula should know
_NO_OPERATORS = ("autograd::", "torch::")  # bookkeeping around operators
_RANGES = ("Optimizer.", "ProfilerStep", "nccl:", "gloo:", "scalewise:")

now_ns = time.perf_counter_ns
Span = tuple[int, int]  # begin and end in ns of `perf_counter`


@dataclass(frozen=True)
class ProfiledCall:
    """One operator, kernel or collective of the profiled step."""

    name: str
    begin_ns: int  # of `perf_counter`
    end_ns: int
    track: str  # thread of operators, stream of kernels, or `collectives`
    size_bytes: int = 0  # of a collective


@dataclass
class Profile:
    """The figures of one profiled step; times in ns."""

    device: str  # cuda or cpu
    begin_ns: int
    end_ns: int
    busy_ns: int = 0
    launches: int = 0
    families: dict[str, int] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, int] = field(default_factory=dict)
    calls: list[ProfiledCall] = field(default_factory=list)  # for a trace
    flops: dict[str, int] = field(default_factory=dict)  # by precision, from the shapes of the operators
    shapeless: set[str] = field(default_factory=set)  # operators whose shapes do not show their flops

    @property
    def wall_ns(self) -> int:
        """The length of the step."""
        return max(1, self.end_ns - self.begin_ns)


class StepProfiler:
    """One profile of one step; it never starts if the script profiles itself."""

    making = False  # a profiler of torch's is being made, and it is ours

    def __init__(self) -> None:
        self._profile: Any = None
        self.begin_ns = self.end_ns = 0
        self._marks: list[Span] = []
        self._cuda = torch.cuda.is_available() and torch.cuda.is_initialized()

    def prepare(self) -> None:
        """Loads before the step what must be loaded."""
        if _profiler_enabled():
            raise RuntimeError(THE_SCRIPT_PROFILES)
        if "KINETO_LOG_LEVEL" not in os.environ:
            os.putenv("KINETO_LOG_LEVEL", "99")  # its notes would appear between the script's own lines
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._cuda else [])]
        StepProfiler.making = True
        try:
            # Without `acc_events` torch 2.11 warns on the script's stderr.
            self._profile = profile(activities=activities, record_shapes=True, acc_events=True)
            self._profile.prepare_trace()
        finally:
            StepProfiler.making = False
            if "KINETO_LOG_LEVEL" not in os.environ:
                os.unsetenv("KINETO_LOG_LEVEL")  # programs that the script starts must not find it

    def begin(self) -> None:
        """Begins the profile when the step opens."""
        if _profiler_enabled():
            raise RuntimeError(THE_SCRIPT_PROFILES)
        self._profile.start_trace()
        self._wait()
        for number in range(MARKS):  # what the profiler's clock says at times that ours knows
            before_ns = now_ns()
            with record_function(f"{MARK} {number}"):
                self._marks.append((before_ns, now_ns()))
        self.begin_ns = now_ns()

    def step_ended(self) -> None:
        """Notes that the step has ended; it may end again, if a further optimizer follows."""
        self._wait()
        self.end_ns = now_ns()

    def end(self) -> None:
        """Stops the profile."""
        self._profile.stop_trace()

    def read(self) -> Profile:
        """Reads the profile; called once, outside all steps, as it takes time."""
        events = self._profile.profiler.kineto_results.events()
        self._profile = None
        number = min(range(MARKS), key=lambda place: self._marks[place][1] - self._marks[place][0])
        mark = next(event for event in events if event.name() == f"{MARK} {number}")
        offset_ns = mark.start_ns() - sum(self._marks[number]) // 2
        window = (self.begin_ns, self.end_ns)
        return _read(events, window, self._cuda, offset_ns, mark.start_thread_id())

    def _wait(self) -> None:
        if self._cuda and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()


def covered_ns(spans: Iterable[Span]) -> int:
    """The length of the union of the spans."""
    return sum(b - a for a, b in merged(spans))


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of the spans, as spans that do not touch."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def overlap_ns(a: Sequence[Span], b: Sequence[Span]) -> int:
    """The time in which both unions are present at once."""
    return covered_ns(a) + covered_ns(b) - covered_ns([*a, *b])


def when_the_script_profiles(guard: Guard, act: Callable[[], None]) -> None:
    """Calls `act` before the script makes a profiler: two at once would break its own."""

    def making(args: tuple[Any, ...], kwargs: Given) -> None:
        if not StepProfiler.making:
            act()

    for kind in (profile, torch.autograd.profiler.profile):
        seam(kind, "__init__").before(guard, making)


# ---- from the profiler's events to a profile


class _Operator:
    """An operator call on the host, inside the one that called it."""

    __slots__ = ("begin_ns", "calls_counted", "end_ns", "event", "inner_ns", "name", "parent", "thread", "wraps")

    def __init__(self, event: Any, offset_ns: int) -> None:
        self.event, self.name = event, event.name()
        self.begin_ns = event.start_ns() - offset_ns
        self.end_ns = self.begin_ns + event.duration_ns()
        self.thread = event.start_thread_id()
        self.parent: _Operator | None = None
        self.inner_ns = 0
        self.calls_counted = False  # it leaves the work to an operator whose flops a formula knows
        self.wraps = False  # it calls itself on the parts of its tensors, as those of a DTensor

    @property
    def self_ns(self) -> int:
        """The operator's time without that of the operators that it called."""
        return max(0, int(self.end_ns - self.begin_ns - self.inner_ns))

    @property
    def callers(self) -> Iterator["_Operator"]:
        """The operators that called this one, from the nearest to the outermost."""
        one = self.parent
        while one is not None:
            yield one
            one = one.parent

    @property
    def is_counted(self) -> bool:
        """Returns whether a formula knows the operator's flops, or those of an operator around it."""
        return any(one.name in FORMULAS for one in (self, *self.callers))


def _read(events: Sequence[Any], window: Span, cuda: bool, offset_ns: int, main_thread: int) -> Profile:
    host = [event for event in events if event.device_type() == DeviceType.CPU]
    operators = _operators(host, window, offset_ns)
    found = Profile("cuda" if cuda else "cpu", *window)
    messages = _messages(host, window, offset_ns)
    if cuda:
        _add_kernels(found, events, operators, window, offset_ns)
    else:
        main = [one for one in operators if one.thread == main_thread]
        _add_host(found, main, messages)
    found.calls += messages
    found.calls += [
        ProfiledCall(one.name, one.begin_ns, one.end_ns, f"operators, thread {one.thread}") for one in operators
    ]
    _add_flops(found, operators)
    return found


def _operators(host: Sequence[Any], window: Span, offset_ns: int) -> list[_Operator]:
    """The operators of the step, each with the one that called it."""
    chosen = [_Operator(event, offset_ns) for event in host if _is_operator(event)]
    chosen = [one for one in chosen if window[0] <= one.begin_ns <= window[1]]
    chosen.sort(key=lambda one: (one.thread, one.begin_ns, -one.end_ns))
    open_ones: list[_Operator] = []
    for one in chosen:
        while open_ones and (open_ones[-1].thread != one.thread or open_ones[-1].end_ns <= one.begin_ns):
            open_ones.pop()
        if open_ones:
            one.parent = open_ones[-1]
            one.parent.inner_ns += one.end_ns - one.begin_ns
        open_ones.append(one)
        if one.name in FORMULAS:
            for caller in one.callers:
                caller.calls_counted = True
                caller.wraps = caller.wraps or caller.name == one.name
    return chosen


def _is_operator(event: Any) -> bool:
    name = event.name()
    return "::" in name and not name.startswith(_NO_OPERATORS) and not event.is_async()


def _is_kernel(event: Any) -> bool:
    """Returns whether an event is a kernel or a copy; a range of the host's that is shown on the device is not."""
    if event.device_type() != DeviceType.CUDA or event.name().startswith(_RANGES):
        return False
    is_range = getattr(event, "is_user_annotation", None)
    return is_range is None or not is_range()


def _messages(host: Sequence[Any], window: Span, offset_ns: int) -> list[ProfiledCall]:
    """The collectives from their call to their end, such as `gloo:all_reduce`."""
    found = []
    for event in host:
        name, begin = event.name(), event.start_ns() - offset_ns
        if name.startswith(("gloo:", "nccl:")) and window[0] <= begin <= window[1]:
            size = _size_bytes(event)
            found.append(ProfiledCall(name, begin, begin + event.duration_ns(), "collectives", size))
    return found


def _size_bytes(event: Any) -> int:
    """The bytes of a collective's tensors, as far as the profiler wrote their shapes."""
    widths = {"float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "long int": 8, "int": 4}
    shapes, dtypes = event.shapes(), event.dtypes()
    total = 0
    for shape, dtype in zip(shapes, dtypes, strict=False):
        count = 1
        for length in shape:
            count *= length if isinstance(length, int) else 0
        total += count * widths.get(dtype, 0) if shape else 0
    return total


def _add_kernels(
    found: Profile, events: Sequence[Any], operators: Sequence[_Operator], window: Span, offset_ns: int
) -> None:
    """Adds the GPUs' busy time and time by family; kernels that no counted operator launched may hide work."""
    by_id = {one.event.correlation_id(): one for one in operators}
    spans: dict[int, list[Span]] = {}
    names: dict[str, dict[str, int]] = {"other": {}, "uncounted": {}}
    for event in events:
        begin = event.start_ns() - offset_ns
        if not _is_kernel(event) or not window[0] <= begin <= window[1]:
            continue
        name, length = event.name(), event.duration_ns()
        family = family_of(name)
        found.launches += 1
        found.families[family] = found.families.get(family, 0) + length
        spans.setdefault(event.device_index(), []).append((begin, begin + length))
        found.calls.append(
            ProfiledCall(name, begin, begin + length, f"GPU {event.device_index()} stream {event.device_resource_id()}")
        )
        launcher = by_id.get(event.linked_correlation_id())
        if family in _HEAVY and (launcher is None or not launcher.is_counted):
            names["uncounted"][name] = names["uncounted"].get(name, 0) + length
        if family == "other":
            names["other"][name] = names["other"].get(name, 0) + length
    found.busy_ns = sum(covered_ns(one) for one in spans.values()) // max(1, len(spans))
    found.other, found.uncounted = _largest(names["other"]), _largest(names["uncounted"])


def _add_host(found: Profile, operators: Sequence[_Operator], messages: Sequence[ProfiledCall]) -> None:
    """Adds the main thread's time by family; with waits for messages and the rest it adds up to the step."""
    other: dict[str, int] = {}
    uncounted: dict[str, int] = {}
    for one in operators:
        family = family_of(one.name)
        found.families[family] = found.families.get(family, 0) + one.self_ns
        if family == "other":
            other[one.name] = other.get(one.name, 0) + one.self_ns
        if family in _HEAVY and not one.is_counted and not one.calls_counted:
            uncounted[one.name] = uncounted.get(one.name, 0) + one.self_ns
    working = merged((one.begin_ns, min(one.end_ns, found.end_ns)) for one in operators if one.parent is None)
    sending = [(one.begin_ns, min(one.end_ns, found.end_ns)) for one in messages]
    found.busy_ns = covered_ns(working)
    found.launches = len(operators)
    waiting = covered_ns(sending) - overlap_ns(working, sending)
    if waiting:
        found.families["communication"] = found.families.get("communication", 0) + waiting
    found.families[HOST] = max(0, found.wall_ns - sum(found.families.values()))
    found.other, found.uncounted = _largest(other), _largest(uncounted)


def _largest(names: dict[str, int]) -> dict[str, int]:
    """The first few names; the rest is summed up under a name of its own."""
    ranked = sorted(names.items(), key=lambda item: -item[1])
    rest = sum(length for _, length in ranked[SHOWN_NAMES:])
    return {name[:120]: length for name, length in ranked[:SHOWN_NAMES]} | ({"and others": rest} if rest else {})


def _add_flops(found: Profile, operators: Sequence[_Operator]) -> None:
    """Adds flops by the shapes that operators were called with; those whose shapes do not show them are listed."""
    for one in operators:
        inside = any(caller.name in FORMULAS and not caller.wraps for caller in one.callers)
        if one.name not in FORMULAS or one.wraps or inside:
            continue
        event = one.event
        try:
            dtype, flops = flops_of_event(one.name, event.shapes(), event.dtypes(), event.concrete_inputs())
        except Exception:
            found.shapeless.add(one.name)
            continue
        precision = precision_of(dtype, found.device, one.name)
        found.flops[precision] = found.flops.get(precision, 0) + flops


def in_order(families: dict[str, int]) -> dict[str, int]:
    """The families in the order of `FAMILIES`, the host last."""
    return {name: families[name] for name in (*FAMILIES, HOST) if families.get(name)}
