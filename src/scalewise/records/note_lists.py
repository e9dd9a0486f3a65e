"""Reads a note from the list as which it was written, or refuses it."""

import dataclasses
import functools
import types
import typing
from typing import Any

from scalewise.records.notes import NOTE_KINDS, Note


class NoteError(ValueError):
    """The error for a list that is not a note."""


def read_note(values: Any) -> Note:
    """The note in a list of its name and values."""
    name = values[0] if isinstance(values, list) and values else None
    if not isinstance(name, str) or name not in NOTE_KINDS:
        raise NoteError(f"not a note: {str(values)[:60]}")
    kind = NOTE_KINDS[name]
    types, least = _shape(name)
    if not least <= len(values) - 1 <= len(types) or not all(map(isinstance, values[1:], types)):
        raise NoteError(f"a note {name!r} has the values {str(values[1:])[:80]}")
    return kind(*values[1:])


@functools.cache
def _shape(name: str) -> tuple[tuple[tuple[type, ...], ...], int]:
    """The types that each value of a note may have, and the smallest number of values."""
    kind = NOTE_KINDS[name]
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    missing = dataclasses.MISSING
    least = sum(one.default is missing and one.default_factory is missing for one in fields)
    return tuple(_plain(hints[one.name]) for one in fields), least


def _plain(hint: Any) -> tuple[type, ...]:
    """The types that a JSON value of this annotation may have."""
    if isinstance(hint, types.UnionType):
        return tuple(one for member in typing.get_args(hint) for one in _plain(member))
    origin: Any = typing.get_origin(hint) or hint
    return (float, int) if origin is float else (origin,)
