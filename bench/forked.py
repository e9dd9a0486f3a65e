"""Fresh processes forked from this one that do a piece of work whenever they are asked, one of them at a time.

Everything heavy is imported before the fork and nothing of CUDA is touched, so every process starts alike.
"""

import gc
import os
import struct
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

FORMAT = "dd"

Times = tuple[float, float]  # wall and CPU seconds


def freeze() -> None:
    """Keeps the garbage collector of the children away from what was loaded here."""
    gc.collect()
    gc.freeze()


class Worker:
    """A process that has prepared a piece of work and repeats it on request."""

    def __init__(self, prepare: Callable[[], Callable[[], Times]]) -> None:
        asked, self._ask = os.pipe()
        self._answer, answered = os.pipe()
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._ask)
            os.close(self._answer)
            _serve(prepare, asked, answered)
        os.close(asked)
        os.close(answered)

    def work(self) -> Times:
        """Has the work done once more and gives back the times it took."""
        os.write(self._ask, b"?")
        answer = os.read(self._answer, struct.calcsize(FORMAT))
        if len(answer) != struct.calcsize(FORMAT):
            raise RuntimeError("a benchmark process has died; its traceback is above")
        wall, cpu = struct.unpack(FORMAT, answer)
        return float(wall), float(cpu)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self._child, 0)


def _serve(prepare: Callable[[], Callable[[], Times]], asked: int, answered: int) -> None:
    code = 1
    try:
        work = prepare()
        while os.read(asked, 1):
            os.write(answered, struct.pack(FORMAT, *work()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
