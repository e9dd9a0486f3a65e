"""Makes the stamp that every hook leaves: a time and a code, noted and shown as a sign of life at once."""

import time
from collections.abc import Callable
from typing import Any

from scalewise.records.events import TIME_MASK

now_ns = time.perf_counter_ns


def host_stamper(pulse: memoryview, append: Callable[[Any], None]) -> Callable[[int], None]:
    """A function that stamps; with all it needs in its closure, it costs half of what a method does.

    It is called four times a step.
    """
    clock, time_mask = now_ns, TIME_MASK

    def stamp(code: int) -> None:
        pulse[0] = moment = clock() & time_mask | code
        append(moment)

    return stamp
