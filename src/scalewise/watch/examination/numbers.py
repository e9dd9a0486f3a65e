"""Numbers for the objects that notes name: told apart by identity, and never kept alive."""

import weakref
from typing import Any


class ObjectNumbers:
    """A number for each object, in the order they were first met."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = 0

    def of(self, thing: Any) -> int | None:
        """The number of an object; None if it has none yet."""
        held = self._known.get(id(thing))
        # A dead object's identity may have been given to another one.
        return held[1] if held is not None and held[0]() is thing else None

    def give(self, thing: Any, number: int | None = None) -> int:
        """Gives an object a new number, or the one it shares with another."""
        if number is None:
            number = self._next
            self._next += 1
        self._known[id(thing)] = (weakref.ref(thing), number)
        return number
