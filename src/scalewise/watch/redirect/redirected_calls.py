"""Keeps account of what the script asked of GPUs, and what stood in for them; reported when something new is asked."""

import atexit
import functools
import os
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from scalewise.records.examination import DeviceUseRow
from scalewise.watch.seams import caller, seams

_INNER = tuple(name.rpartition("/")[0] + "/" for name in (torch.__file__, __file__.rpartition("/watch/")[0]))
_DATA_PARALLEL = os.path.join("torch", "nn", "parallel", "data_parallel.py")


class RedirectedCalls:
    """The redirected calls of one process; its listener gets a row for every new call, and the last counts at exit."""

    def __init__(self) -> None:
        self._asked: dict[str, None] = {}
        self._redirected: Counter[str] = Counter()
        self._unseen: dict[str, None] = {}
        self._tell: Callable[[DeviceUseRow], None] | None = None

    def told_to(self, tell: Callable[[DeviceUseRow], None]) -> None:
        """Sets the function that rows are given to."""
        self._tell = tell
        self._report()
        atexit.register(self._report)

    def ask(self, what: str) -> None:
        """Notes that a device or a backend was asked for by name."""
        if what not in self._asked:
            self._asked[what] = None
            self._report()

    def redirect(self, call: str) -> None:
        """Counts a call that was answered on the CPU."""
        self._redirected[call] += 1
        if self._redirected[call] == 1:
            self._report()

    def miss(self, call: str) -> None:
        """Notes a call whose answer means nothing here."""
        if call not in self._unseen:
            self._unseen[call] = None
            self._report()

    def row(self) -> DeviceUseRow:
        """The row with everything noted so far."""
        # A rank that makes one GPU visible to itself calls that one 0, as every other rank calls its own.
        seen = [f"{name}={os.environ[name]}" for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ]
        return DeviceUseRow((*self._asked, *seen), "cpu", dict(self._redirected), tuple(self._unseen))

    def _report(self) -> None:
        if self._tell is not None:
            self._tell(self.row())


def stand_in(calls: RedirectedCalls, owner: Any, name: str, deed: Callable[..., Any], unseen: bool = False) -> None:
    """Replaces the function that `owner` has by this name, if it has one; its calls are counted."""
    call = f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"

    def standing_in(*args: Any, **kwargs: Any) -> Any:
        calls.redirect(call)
        if unseen:
            calls.miss(call)
        return deed(*args, **kwargs)

    for one in seams(owner, (name,)).values():
        one.replace(standing_in)


def answer_outside(calls: RedirectedCalls, owner: Any, name: str, answer: Callable[..., Any]) -> None:
    """Gives another answer to calls from outside torch; torch itself must know what is really there."""
    called = f"{owner.__name__}.{name}"

    def answered(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if asked_inside(caller().f_code):
            return call(*args, **kwargs)
        calls.redirect(called)
        return answer(*args, **kwargs)

    for one in seams(owner, (name,)).values():
        one.around(answered)


@functools.cache
def asked_inside(code: CodeType) -> bool:
    """Returns whether the code is torch's own, or ours; except nn.DataParallel's, which asks where the model is."""
    return code.co_filename.startswith(_INNER) and not code.co_filename.endswith(_DATA_PARALLEL)
