"""Times steps of a training script between two marked lines; `bench.wild` puts the two calls into a copy of it.

It imports nothing but the standard library, and each step costs two clock readings and one small write.
"""

import os
import struct
import time

_begun = 0
_file = -1


def start() -> None:
    """Puts this rank on the cores that a watched rank of the same number would have."""
    cores = os.environ.get("HAND_TIMER_CORES", "")
    if cores:
        shares = cores.split(";")
        mine = shares[int(os.environ.get("LOCAL_RANK", "0")) % len(shares)]
        os.sched_setaffinity(0, {int(core) for core in mine.split(",")})


def begin() -> None:
    """The first call after a step's end counts: further ones are micro-batches of the same step."""
    global _begun
    if not _begun:
        _begun = time.perf_counter_ns()


def end() -> None:
    """Written at once, because a rank may be ended before it could write at its exit."""
    global _begun, _file
    now = time.perf_counter_ns()
    if not _begun:
        return
    if _file < 0:
        environ = os.environ
        name = f"{environ.get('WORLD_SIZE', '1')}-{environ.get('RANK', '0')}-{os.getpid()}.steps"
        _file = os.open(f"{environ['HAND_TIMER_FOLDER']}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_file, struct.pack("<qq", _begun, now))
    _begun = 0
