"""Locks a suite's folder, so that only one scalewise process at a time uses it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalewise.errors import BadRequest


@contextmanager
def locked(folder: Path, node_rank: int = 0) -> Iterator[None]:
    """Holds the folder's lock; the kernel releases it however this process ends."""
    with open(folder / (f".lock.node{node_rank}" if node_rank else ".lock"), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(
                f"another scalewise is measuring into {folder}",
                "wait until it has ended, or choose another folder",
            ) from None
        yield
