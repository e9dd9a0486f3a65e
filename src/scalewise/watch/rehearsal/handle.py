"""Makes the handle that a collective returns: done at once; waits of the script or torch for it are put on tape."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.watch.hooks.forward import first_tensor
from scalewise.watch.rehearsal.message_log import NO_TICKET, TapeRecorder, Ticket
from scalewise.watch.rehearsal.streams import Lanes


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
