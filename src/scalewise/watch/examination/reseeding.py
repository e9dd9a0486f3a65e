"""Finds out whether a fetch seeds the generators itself: what it draws then does not depend on their earlier state."""

import contextlib
import functools
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def reseeding() -> Iterator[set[str]]:
    """The generators (torch, numpy, random) that are seeded inside the context; the calls work as usual."""
    seeded: set[str] = set()
    numpy: Any = sys.modules.get("numpy")
    owners: list[tuple[str, Any, str]] = [
        ("torch", torch, "manual_seed"),
        ("torch", torch.random, "manual_seed"),
        ("random", random, "seed"),
        *([("numpy", numpy.random, "seed")] if numpy is not None else []),
    ]
    originals = [getattr(owner, name) for _, owner, name in owners]
    for (generator, owner, name), original in zip(owners, originals, strict=True):
        setattr(owner, name, _noting(original, generator, seeded))
    try:
        yield seeded
    finally:
        for (_, owner, name), original in zip(owners, originals, strict=True):
            setattr(owner, name, original)


def _noting(original: Any, generator: str, seeded: set[str]) -> Any:
    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        seeded.add(generator)
        return original(*args, **kwargs)

    return seed
