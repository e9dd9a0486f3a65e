"""The group that stands for all ranks: every message of the rank, from Python or from C++, goes through it.

It sends nothing. Messages go on tape, and what others would have sent is made of what is here, in time that does not
count: a gathered tensor holds this rank's piece again and again, a received one zeros. The handle that a collective
returns is done at once; waits of the script or torch for it are put on tape.
"""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from scalewise.watch.hooks.batch_rows import first_tensor
from scalewise.watch.rehearsal.message_log import NO_TICKET, TapeRecorder, Ticket
from scalewise.watch.rehearsal.remote_values import ReadTracker
from scalewise.watch.rehearsal.streams import Lanes

Tensors = Sequence[torch.Tensor]
_DEVICES = ("cpu", "cuda")
_ProcessGroup: Any = dist.ProcessGroup  # its methods are overloaded more than ours are called

# A statistic or a decision is made as if all ranks had the same; gradients are left alone, which is quicker.
MOST_REDUCED = 4096


class Handle(dist.Work):
    """The handle of one message."""

    def __init__(self, tape: TapeRecorder, lanes: Lanes, result: Any) -> None:
        super().__init__()
        self._tape, self._lanes, self._result = tape, lanes, result
        self.ticket: Ticket = NO_TICKET

    def wait(self, timeout: Any = None) -> bool:
        """Returns at once, but puts the wait on tape."""
        self._lanes.wait(self.ticket)
        return True

    def synchronize(self) -> None:
        """Waits, as `wait` does."""
        self.wait()

    def is_completed(self) -> bool:
        """Returns True, always."""
        return True

    def is_success(self) -> bool:
        """Returns True, always."""
        return True

    def exception(self) -> None:
        """Returns None: a rehearsed message never fails."""

    def result(self) -> Any:
        """The tensors of the message."""
        return self._result

    def source_rank(self) -> int:
        """The source of a message from any rank: the first rank, as there is no real one."""
        return 0

    _source_rank = source_rank

    def get_future(self) -> "Arrival":
        """A future, asked for by DDP's reducer and communication hooks: waited for when the backward pass ends."""
        self._tape.wait_after_backward(self.ticket)
        arrival = Arrival(self._tape, self._lanes, (self.ticket,), _devices(self._result))
        arrival.set_result(self._result)
        return arrival


class Arrival(torch.futures.Future[Any]):
    """A future that is already done, and that puts on tape who waits for it."""

    def __init__(self, tape: TapeRecorder, lanes: Lanes, tickets: tuple[Ticket, ...], devices: list[Any]) -> None:
        super().__init__(devices=devices)
        self._tape, self._lanes, self._tickets, self._devices = tape, lanes, tickets, devices

    def wait(self) -> Any:
        """Returns at once, but puts the wait on tape."""
        for ticket in self._tickets:
            self._lanes.wait(ticket)
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> "Arrival":
        """Calls the callback now; what it waits for holds up only those who wait for its own result."""
        plain: torch.futures.Future[Any] = torch.futures.Future(devices=self._devices)
        plain.set_result(super().value())
        with self._tape.beside() as waited:
            try:
                result, error = callback(plain), None
            except Exception as raised:
                result, error = None, raised
        follower = Arrival(self._tape, self._lanes, (*self._tickets, *waited), self._devices)
        if error is not None:
            follower.set_exception(error)
        elif isinstance(result, torch.futures.Future):
            follower.set_result(result.value())
        else:
            follower.set_result(result)
        return follower


def _devices(result: Any) -> list[Any]:
    tensor = first_tensor(result, depth=3)
    with torch._C.DisableTorchFunction():  # where a tensor really is, whatever a redirected script is told
        return [tensor.device] if tensor is not None and tensor.is_cuda else []


# ---- what a message brings when nobody sends: numbers to go on with, none of them uninitialised


def nothing() -> None:
    """Leaves the tensor as it is."""


def reduced(tensors: Sequence[torch.Tensor], opts: Any, ranks: int) -> None:
    """Multiplies sums by the number of ranks; the mean, the largest and the smallest of equals need nothing."""
    if getattr(opts, "reduceOp", None) == dist.ReduceOp.SUM:
        for tensor in tensors:
            if tensor.numel() <= MOST_REDUCED and not tensor.is_sparse and tensor.dtype != torch.bool:
                tensor.detach().mul_(ranks)


def copied(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copies each source to its target if their sizes are equal, else writes zeros."""
    for target, source in pairs:
        if target.shape == source.shape:
            target.detach().copy_(source)
        else:
            target.detach().zero_()


def repeated(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], ranks: int) -> None:
    """Repeats each input once per rank, in one copy however many ranks there are."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel() // ranks  # may be nothing
        output.detach().view(ranks, piece).copy_(source.reshape(1, piece).expand(ranks, piece))


def own_piece(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], rank: int) -> None:
    """Gives this rank's piece of each input."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel()
        output.detach().view(-1).copy_(source.reshape(-1).narrow(0, rank * piece, piece))


def zeros(tensors: Sequence[torch.Tensor]) -> None:
    """Writes zeros: memory that nobody wrote holds numbers that computing may be slow with."""
    for tensor in tensors:
        tensor.detach().zero_()


# ---- messages


class MessageSink:
    """The state that all groups of this process share."""

    def __init__(self, tape: TapeRecorder, lanes: Lanes, reads: ReadTracker) -> None:
        self.tape, self.lanes, self.reads = tape, lanes, reads
        self._batch: list[tuple[str, int, Handle]] | None = None

    def message(
        self, kind: str, size_bytes: int, ranks: int, nodes: int, result: Any, arrive: Callable[[], None]
    ) -> Handle:
        """Puts a message on tape and makes up what it brings."""
        handle = Handle(self.tape, self.lanes, result)
        if self._batch is not None:
            self._batch.append((kind, size_bytes, handle))
        else:
            handle.ticket = self.tape.issue(kind, size_bytes, ranks, nodes)
        if arrive is not nothing:
            try:
                with self.tape.left_out(), torch.no_grad():
                    arrive()
            except Exception as error:  # then its numbers are what they were
                self.tape.broke(error)
        return handle

    @contextmanager
    def together(self, kind: str, ranks: int) -> Iterator[None]:
        """A context for messages of both directions at once, which take as long as the larger direction."""
        batch: list[tuple[str, int, Handle]] = []
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None
            sent = sum(size for way, size, _ in batch if way == "send")
            ticket = self.tape.issue(kind, max(sent, sum(size for _, size, _ in batch) - sent), ranks)
            for _, _, handle in batch:
                handle.ticket = ticket


class StageGroup(_ProcessGroup):  # type: ignore[misc]
    """One group of ranks; its methods have the names that torch calls them by, old and new."""

    def __init__(self, stage: MessageSink, rank: int, size: int) -> None:
        from torch._C._distributed_c10d import FakeProcessGroup

        super().__init__(rank, size)
        self._stage = stage
        # In places torch asks for it by name and by device; no message reaches it.
        backend = FakeProcessGroup._create_internal(rank, size)
        for device in _DEVICES:
            self._register_backend(torch.device(device), _ProcessGroup.BackendType.CUSTOM, backend)

    @functools.cached_property
    def _nodes(self) -> int:
        """The number of nodes its ranks lie on, as torchrun would lay them out; 0 if it holds all ranks."""
        if self.size() == dist.get_world_size():
            return 0
        try:
            per_node = int(os.environ["LOCAL_WORLD_SIZE"])
            return len({rank // per_node for rank in dist.get_process_group_ranks(self)})
        except (KeyError, ValueError, ZeroDivisionError):  # then it is taken to lie on as few nodes as can hold it
            return 0

    def getBackendName(self) -> str:
        """A name for which torch has no special treatment."""
        return "rehearsed"

    def _message(
        self, kind: str, whole: Tensors, result: Any, arrive: Callable[[], None] = nothing, heard: Tensors = ()
    ) -> Handle:
        size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in whole)
        handle = self._stage.message(kind, size_bytes, self.size(), self._nodes, result, arrive)
        for tensor in heard:
            self._stage.reads.hear(kind, tensor)
        return handle

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Handle:
        """Returns what equal tensors from all ranks would give; gradients stay as they are."""
        tensors = list(tensors)
        if torch._C._len_torch_dispatch_stack():
            super().allreduce(tensors, opts)  # a mode that looks at every operation sees one, as in a real run
        return self._message("all_reduce", tensors, tensors, lambda: reduced(tensors, opts, self.size()), tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Handle:
        """Reduces several tensors in one message."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Handle:
        """Reduces as an all-reduce does, for one of the ranks."""
        tensors = list(tensors)
        return self._message("reduce", tensors, tensors, lambda: reduced(tensors, opts, self.size()), tensors)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Handle:
        """Leaves the tensors as they are."""
        tensors = list(tensors)
        heard = tensors if getattr(opts, "rootRank", self.rank()) != self.rank() else ()
        return self._message("broadcast", tensors, tensors, heard=heard)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Handle:
        """Gives this rank's piece for every rank."""
        pieces = [piece for pieces in outputs for piece in pieces]
        pairs = [(piece, source) for pieces, source in zip(outputs, inputs, strict=True) for piece in pieces]
        return self._message("all_gather", pieces, outputs, lambda: copied(pairs), pieces)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Handle:
        """Gathers several tensors in the same way: here the outer list is that of the ranks."""
        pieces = [piece for pieces in outputs for piece in pieces]
        pairs = [pair for pieces in outputs for pair in zip(pieces, inputs, strict=True)]
        return self._message("all_gather", pieces, outputs, lambda: copied(pairs), pieces)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Handle:
        """Gathers into one tensor."""
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Handle:
        """Gathers into several tensors."""
        outputs, inputs = list(outputs), list(inputs)
        return self._message("all_gather", outputs, outputs, lambda: repeated(outputs, inputs, self.size()), outputs)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Handle:
        """Gives this rank's piece of its own tensors."""
        pairs = [(output, pieces[self.rank()]) for output, pieces in zip(outputs, inputs, strict=True)]
        whole = [piece for pieces in inputs for piece in pieces]
        return self._message("reduce_scatter", whole, list(outputs), lambda: copied(pairs), outputs)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Handle:
        """Gives this rank's piece of one tensor."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Handle:
        """Gives this rank's piece of several tensors."""
        outputs, inputs = list(outputs), list(inputs)
        return self._message(
            "reduce_scatter", inputs, outputs, lambda: own_piece(outputs, inputs, self.rank()), outputs
        )

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(
        self, output: torch.Tensor, source: torch.Tensor, out_sizes: Any = None, in_sizes: Any = None, opts: Any = None
    ) -> Handle:
        """Gives the rank its own pieces back where they fit."""
        return self._message("all_to_all", [source], output, lambda: copied([(output, source)]), [output])

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Handle:
        """Gives the rank its own pieces back where they fit."""
        pairs = list(zip(outputs, inputs, strict=True))
        return self._message("all_to_all", list(inputs), list(outputs), lambda: copied(pairs), list(outputs))

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Handle:
        """Gives this rank's piece for every rank, if it is the one that gathers."""
        pairs = [(piece, inputs[0]) for pieces in outputs for piece in pieces]
        whole = list(inputs) * self.size()
        heard = [piece for piece, _ in pairs]
        return self._message("gather", whole, outputs, lambda: copied(pairs), heard)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Handle:
        """Gives the rank its own piece if it is the one that scatters, otherwise zeros."""
        outputs = list(outputs)
        own = [pieces[self.rank()] for pieces in inputs]
        arrive = (lambda: copied(list(zip(outputs, own, strict=True)))) if own else lambda: zeros(outputs)
        return self._message("scatter", outputs * self.size(), outputs, arrive, () if own else outputs)

    def barrier(self, opts: Any = None) -> Handle:
        """Returns at once: there is nobody to wait for."""
        return self._message("barrier", (), None)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Returns at once: there is nobody to wait for."""
        self.barrier().wait()

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Handle:
        """Puts the message on tape and sends nothing."""
        return self._message("send", tensors, list(tensors))

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Handle:
        """Gives zeros."""
        tensors = list(tensors)
        return self._message("recv", tensors, tensors, lambda: zeros(tensors), tensors)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Handle:
        """Gives zeros."""
        return self.recv(tensors, 0, tag)
