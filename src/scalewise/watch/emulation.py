"""Holds messages back: the code of the change `emulate_link`, by which each takes as long as on a slower link.

A message takes the link's latency and its bytes at the link's rate, and begins when the last rank is ready and the
message before it is through. Sleeping takes no core, so computing goes on as it would beside a real link. No message is
released before the real one has arrived; those that were late are counted.

Ranks of one host share, through a file they all map, when each had a message ready. The real message cannot end before
the last one was, so a rank that has received it finds the times of all the others there, and no further message has to
be sent to learn them.

What is called through torch.distributed returns later, and handles finish later. Functions that send objects are left
alone: they send one message with the size and one with the bytes, through functions that are held back themselves.
Bytes are those of the whole message, as a rehearsal puts them on tape, so that a message takes as long over an emulated
link as predicted.

The reducer of DistributedDataParallel is given a process group in front of the real one, which holds back its
all-reduces. A communication hook would do, too, but it has to divide the gradients in a pass of its own, which costs a
large model 4 % of its step; the reducer divides while it copies.
"""

import mmap
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.collectives import DISTRIBUTED, CollectiveFunction, functions_in
from scalewise.watch.call_arguments import Argument
from scalewise.watch.crash import for_the_script
from scalewise.watch.seams import seam, seams

KIND = "emulate_link"
LATE = "emulate_link late"  # the real message took longer than the emulated link would have
NANO = 1e-9
SLOTS = 1024  # messages under way at once; far more than there are
_WORDS = 2  # of a rank in a slot: the message's number, counted from 1, and its time


@dataclass
class Message:
    """One message under way; `error` is the exception of the real message, if it failed."""

    size_bytes: int
    number: int  # among the messages of all ranks; 0: of some ranks only
    ready_ns: int
    arrive: Callable[[], object] = lambda: None  # waits for the real one
    released: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    then: list[Callable[[], None]] = field(default_factory=list)

    def wait(self) -> None:
        """Waits until the link has released the message."""
        self.released.wait()
        if self.error is not None:
            raise for_the_script(self.error)


class Readiness:
    """The shared times of all ranks of one host; the clock is that of the host, the same for every process."""

    def __init__(self, path: Path, ranks: int) -> None:
        self._ranks = ranks
        size_bytes = SLOTS * ranks * _WORDS * 8
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            os.ftruncate(descriptor, size_bytes)
            self._words = memoryview(mmap.mmap(descriptor, size_bytes)).cast("q")
        finally:
            os.close(descriptor)

    def tell(self, rank: int, number: int, ready_ns: int) -> None:
        """Writes when this rank had its part of a message ready."""
        at = self._at(rank, number)
        self._words[at + 1] = ready_ns
        self._words[at] = number

    def last(self, number: int, own_ns: int) -> int:
        """The latest time at which any rank had that message ready, as far as known."""
        latest = own_ns
        for rank in range(self._ranks):
            at = self._at(rank, number)
            if self._words[at] == number:
                latest = max(latest, self._words[at + 1])
        return latest

    def _at(self, rank: int, number: int) -> int:
        return (number % SLOTS * self._ranks + rank) * _WORDS


class Carrier:
    """The link of one process; messages pass in the order in which they were handed over."""

    def __init__(
        self,
        latency_seconds: float,
        bytes_per_second: float,
        readiness: Readiness | None,
        count: Callable[[str], None],
    ) -> None:
        self._latency_seconds, self._bytes_per_second = latency_seconds, bytes_per_second
        self._readiness, self._count = readiness, count
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._thread_of = 0  # the process in which the thread runs: a forked child has none
        self._numbers = 0
        self._free_seconds = 0.0
        self._lock = threading.Lock()

    def ready(self, size_bytes: int, rank: int | None) -> Message:
        """Announces a message that is about to be sent; `rank` in the group of all ranks, None for another group."""
        now_ns = time.perf_counter_ns()
        if rank is None or self._readiness is None:
            return Message(size_bytes, 0, now_ns)
        self._numbers += 1
        self._readiness.tell(rank, self._numbers, now_ns)
        return Message(size_bytes, self._numbers, now_ns)

    def carry(self, message: Message) -> None:
        """Hands the message over to the link; returns at once."""
        if self._thread_of != os.getpid():
            self._thread_of = os.getpid()
            threading.Thread(target=self._run, name="emulated-link", daemon=True).start()
        self._queue.put(message)

    def then(self, message: Message, do: Callable[[], None]) -> None:
        """Calls a function once the message is released; at once if it is already."""
        with self._lock:
            if not message.released.is_set():
                message.then.append(do)
                return
        do()

    def _run(self) -> None:
        while True:
            message = self._queue.get()
            try:
                message.arrive()
                self._hold(message)
            except BaseException as error:  # the real message failed: whoever waits is told
                message.error = error
            with self._lock:
                message.released.set()
                waiting, message.then = message.then, []
            for do in waiting:
                do()

    def _hold(self, message: Message) -> None:
        ready_ns = message.ready_ns
        if message.number and self._readiness is not None:
            ready_ns = self._readiness.last(message.number, ready_ns)
        begin = max(self._free_seconds, ready_ns * NANO)
        self._free_seconds = begin + self._latency_seconds + message.size_bytes / self._bytes_per_second
        left = self._free_seconds - time.perf_counter()
        self._count(KIND)
        if left > 0:
            time.sleep(left)
        else:
            self._count(LATE)


def hold_back_calls(carrier: Carrier) -> None:
    """Replaces each function by one that sends, and then waits for the rest of the emulated time."""
    inside = threading.local()  # collectives call one another: only the outermost is a message
    sending = {one.name: one for one in functions_in(DISTRIBUTED) if one.payload != "objects"}
    for name, call in seams(dist, sending, within="torch.distributed").items():
        call.around(_held_back(carrier, sending[name], inside))


def rank_among_all(group: Any) -> int | None:
    """The rank of this process if the group is that of all ranks, None if it is another."""
    default = dist.distributed_c10d._get_default_group()
    return dist.get_rank() if group in (None, dist.group.WORLD, default) else None


def _held_back(carrier: Carrier, function: CollectiveFunction, inside: threading.local) -> Callable[..., Any]:
    size = WholeBytes(function, getattr(dist, function.name))

    def held_back(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        group = _group(args, kwargs)
        ranks = 0 if getattr(inside, "now", False) or not dist.is_initialized() else dist.get_world_size(group)
        if ranks < 2:
            return call(*args, **kwargs)
        message = carrier.ready(size.of(args, kwargs, ranks), rank_among_all(group))
        inside.now = True
        try:
            result = call(*args, **kwargs)
        finally:
            inside.now = False
        works = result if isinstance(result, list) else [result]
        if not works or not all(isinstance(one, dist.Work) for one in works):
            carrier.carry(message)
            message.wait()
            return result
        message.arrive = lambda: [one.wait() for one in works]
        carrier.carry(message)
        handles = [_Handle(carrier, message, one) for one in works]
        return handles if isinstance(result, list) else handles[0]

    return held_back


def _group(args: Any, kwargs: Any) -> Any:
    """The group that was asked for, None for all ranks. A process outside the group sends nothing."""
    outside = dist.GroupMember.NON_GROUP_MEMBER
    given = (*args, *kwargs.values())
    found = (value for value in given if value is outside or isinstance(value, dist.ProcessGroup))
    return next(found, None)


class _Handle(dist.Work):
    """A handle in place of a real one, done when the emulated link has released the message."""

    def __init__(self, carrier: Carrier, message: Message, work: dist.Work) -> None:
        super().__init__()
        self._carrier, self._message, self._work = carrier, message, work

    def wait(self, timeout: Any = None) -> bool:
        """Waits for the link; errors of the real message are raised here."""
        self._message.wait()
        return True

    def is_completed(self) -> bool:
        """Returns whether the message is through the link."""
        return self._message.released.is_set()

    def is_success(self) -> bool:
        """Returns whether the message is through the link and the real one succeeded."""
        return self.is_completed() and self._message.error is None

    def get_future(self) -> Any:
        """A future of the real handle's result, done when the link has released the message."""
        arrived, released = self._work.get_future(), torch.futures.Future()  # type: ignore[var-annotated]

        def settle() -> None:
            if self._message.error is None:
                released.set_result(arrived.value())
            else:
                released.set_exception(self._message.error)

        self._carrier.then(self._message, settle)
        return released


class WholeBytes:
    """The bytes of the whole message that calls of one function send."""

    def __init__(self, function: CollectiveFunction, original: Callable[..., Any]) -> None:
        self._payload, self._argument = function.payload, Argument(original, function.argument)

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any], ranks: int) -> int:
        """The bytes of one call among so many ranks; 0 if it sends nothing but a signal."""
        value = self._argument.of(args, kwargs)
        if self._payload == "both_ways":
            return _larger_way(value)
        return tensor_bytes(value) * (ranks if self._payload == "piece" else 1)


def tensor_bytes(value: Any) -> int:
    """The bytes of a tensor, or of all in (nested) lists; 0 for anything else, about which torch itself complains."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(tensor_bytes, value)) if isinstance(value, (list, tuple)) else 0


def _larger_way(operations: Any) -> int:
    """The bytes of the larger direction of a batch: a link carries both at once, so that the larger one decides."""
    sent = received = 0
    for one in operations if isinstance(operations, (list, tuple)) else ():
        size_bytes = tensor_bytes(getattr(one, "tensor", None))
        # By name: the function itself is wrapped, by us and by the watcher.
        if getattr(getattr(one, "op", None), "__name__", "") == "isend":
            sent += size_bytes
        else:
            received += size_bytes
    return max(sent, received)


def hold_back_buckets(carrier: Carrier) -> None:
    """Gives each reducer the emulated group.

    A script's own communication hook bypasses it; the hook's collectives are held back as calls.
    """
    # The reducer holds the C++ side of a group only; without its Python side, ours would be one without a backend.
    kept: weakref.WeakKeyDictionary[Any, _Group] = weakref.WeakKeyDictionary()
    _wrap_buffers(carrier)

    def init_helper(call: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        group = self.process_group
        if dist.get_world_size(group) > 1:
            self.process_group = kept[self] = _Group(carrier, group)
        try:
            return call(self, *args, **kwargs)
        finally:
            self.process_group = group

    seam(DistributedDataParallel, "_ddp_init_helper").around(init_helper)


class _Group(dist.ProcessGroup):
    """A process group that passes what the reducer asks for on to the real group."""

    def __init__(self, carrier: Carrier, group: dist.ProcessGroup) -> None:
        super().__init__(group.rank(), group.size())  # type: ignore[call-arg]
        self._carrier, self._group, self._rank = carrier, group, rank_among_all(group)

    def getBackendName(self) -> str:
        """A name that is not the real backend's: by a known name, DDP would look for that backend's settings here."""
        return "emulated"

    def allreduce(self, tensors: Any, options: Any = None) -> Any:  # type: ignore[override]
        """Sends a bucket, or the few numbers that say which parameters were used."""
        given = tensors if isinstance(tensors, list) else [tensors]
        message = self._carrier.ready(tensor_bytes(given), self._rank)
        work = self._group.allreduce(tensors, options) if options is not None else self._group.allreduce(tensors)
        message.arrive = work.wait
        future: torch.futures.Future[Any] = torch.futures.Future()
        self._carrier.then(message, lambda: _settle(future, message, given))
        self._carrier.carry(message)
        return _Work(message, future)

    def broadcast(self, tensors: Any, options: Any = None) -> Any:  # type: ignore[override]
        """Broadcasts the order of buckets, without delay: it happens once and is part of no step's usual work."""
        return self._group.broadcast(tensors, options)


class _Work(dist.Work):
    """The handle of one message, as the reducer expects it."""

    def __init__(self, message: Message, future: Any) -> None:
        super().__init__()
        self._message, self._future = message, future

    def wait(self, timeout: Any = None) -> bool:
        """Waits until the message is through the link."""
        self._message.wait()
        return True

    def get_future(self) -> Any:
        """Returns a future of the reduced tensors."""
        return self._future


def _settle(future: torch.futures.Future[Any], message: Message, tensors: list[torch.Tensor]) -> None:
    if message.error is None:
        future.set_result(tensors)
    else:
        future.set_exception(message.error)


def _wrap_buffers(carrier: Carrier) -> None:
    """Wraps the Python caller of the broadcast of buffers before forward, as the broadcast itself is made in C++."""

    def sync_buffers(call: Any, self: Any) -> Any:
        # A hook of the script's own sends through torch.distributed, where its messages are held back as calls.
        if hasattr(self, "buffer_hook") or dist.get_world_size(self.process_group) < 2:
            return call(self)
        rank = rank_among_all(self.process_group)
        messages = [carrier.ready(size_bytes, rank) for size_bytes in _broadcast_bytes(self)]
        result = call(self)
        for message in messages:
            carrier.carry(message)
        for message in messages:
            message.wait()
        return result

    for private in seams(DistributedDataParallel, ("_sync_buffers",)).values():
        private.around(sync_buffers)


def _broadcast_bytes(model: Any) -> list[int]:
    """The bytes of each message that C++ makes of the buffers: one for each dtype, and more if they are large."""
    buffers = [buffer for name, buffer in model.module.named_buffers() if name not in model.parameters_to_ignore]
    if not buffers:
        return []
    assigned: Any = dist._compute_bucket_assignment_by_size  # type: ignore[attr-defined]
    numbers, _ = assigned(buffers, [model.broadcast_bucket_size])
    return [tensor_bytes([buffers[number] for number in some]) for some in numbers]
