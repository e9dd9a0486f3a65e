"""Follows messages through the streams of a GPU: a wait in a side stream matters only when computing waits for it.

FSDP gathers in a stream of its own and lets the computing stream wait for an event there. So what a side stream has
waited for goes with every event recorded in it, and is waited for where the computing stream waits for the event.
"""

import weakref
from typing import Any

import torch

from scalewise.watch.rehearsal.message_log import TapeRecorder, Ticket
from scalewise.watch.seams import seam


class Lanes:
    """The messages that each side stream has waited for, and those that each event recorded there comes after."""

    def __init__(self, tape: TapeRecorder) -> None:
        self._tape = tape
        self._behind: dict[int, dict[Ticket, None]] = {}  # each ticket once, in order
        self._events: weakref.WeakKeyDictionary[Any, list[Ticket]] = weakref.WeakKeyDictionary()

    def wait(self, ticket: Ticket) -> None:
        """Makes the current stream, or the host if there is no other, wait for a message."""
        stream = self._tape.side_stream()
        if stream is None:
            self._tape.wait(ticket)
        else:
            self._behind.setdefault(stream, {})[ticket] = None

    def recorded(self, event: Any, stream: int) -> None:
        """Notes an event recorded in a stream, with the messages that the stream waits for."""
        behind = self._behind.get(stream)
        if behind:
            step = self._tape.step_number  # what older steps sent has arrived
            self._behind[stream] = behind = {ticket: None for ticket in behind if ticket[0] == step}
            self._events[event] = list(behind)

    def waits_for(self, stream: int, event: Any) -> None:
        """Makes a stream wait for the messages of an event."""
        tickets = self._events.get(event, ())
        if stream == self._tape.computing_stream:
            for ticket in tickets:
                self._tape.wait(ticket)
        elif tickets:
            self._behind.setdefault(stream, {}).update(dict.fromkeys(tickets))

    def install(self) -> None:
        """Wraps events: every way for a stream to wait for another goes through them."""
        if not torch.cuda.is_available():
            return
        event: Any = torch.cuda.Event
        self._tape.record_event = event.record

        def wait(call: Any, event: Any, stream: Any = None) -> Any:
            address = self._address(stream)
            if address is not None:
                self.waits_for(address, event)
            return call(event, stream)

        def record(call: Any, event: Any, stream: Any = None) -> Any:
            address = self._address(stream)
            if address is not None:
                self.recorded(event, address)
            return call(event, stream)

        seam(event, "wait").around(wait)
        seam(event, "record").around(record)

    def _address(self, stream: Any) -> int | None:
        """The address of a stream; None if no device's clock is in use, as streams do not matter then."""
        if self._tape.computing_stream is None:
            return None
        address = getattr(torch.cuda.current_stream() if stream is None else stream, "cuda_stream", None)
        return None if address is None else int(address)
