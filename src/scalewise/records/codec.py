"""Turns frozen dataclasses into JSON and back, with a schema version and an error that names the wrong field."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

SCHEMA_VERSION = 1
LARGEST_WHOLE = 10**300  # a larger whole number is damage, and would not fit a float

Record = TypeVar("Record")


class BadRecord(ValueError):
    """The error for a file in a run folder that cannot be read as what it should be; says where and why."""


def encode(record: object) -> dict[str, Any]:
    """The record as plain JSON values, with the schema version."""
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        raise TypeError(f"not a record: {record!r}")
    return {"schema": _schema(type(record)), **dataclasses.asdict(record)}


def json_value(value: Any) -> Any:
    """Any result as JSON values, of whatever it consists; numbers that are not finite become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def decode(kind: type[Record], data: object, where: str = "") -> Record:
    """The JSON value as a record of that kind; unknown keys are ignored so that newer files stay readable."""
    if not isinstance(data, dict):
        raise BadRecord(f"{where or kind.__name__}: expected an object, found {type(data).__name__}")
    version, newest = data.get("schema", SCHEMA_VERSION), _schema(kind)
    if version not in range(SCHEMA_VERSION, newest + 1):
        raise BadRecord(
            f"{where or kind.__name__}: schema {version!r} is not {newest}, which this version of scalewise "
            f"reads; open it with the version that wrote it, or measure again"
        )
    if newest > SCHEMA_VERSION:
        data = typing.cast(Any, kind).upgraded(data)
    return typing.cast(Record, _record(kind, typing.cast(dict[str, Any], data), where or kind.__name__))


def _schema(kind: type) -> int:
    """The record's own `SCHEMA` if it has changed; its `upgraded` then reads older ones, and leaves new ones alone."""
    return int(getattr(kind, "SCHEMA", SCHEMA_VERSION))


def write_json(path: Path, record: object) -> None:
    """Writes the record to a temporary file and renames it into place, so that a reader sees all of it or none.

    On a full disk the temporary file is removed.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(encode(record), file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def read_json(path: Path, kind: type[Record]) -> Record:
    """Reads one record; every way in which the file can be wrong is a `BadRecord` that names the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRecord(f"{path}: {error}") from error
    return decode(kind, data, str(path))


def read_json_or_none(path: Path, kind: type[Record]) -> Record | None:
    """Reads one record; returns None if the file is not there, or cannot be read just now."""
    try:
        return read_json(path, kind)
    except BadRecord:
        return None


@functools.cache  # reading the hints costs more than everything else about a row
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _record(kind: Any, data: dict[str, Any], where: str) -> object:
    hints, former = _hints(kind), getattr(kind, "FORMER", {})  # FORMER: names of fields in older files
    values = {}
    for field in dataclasses.fields(kind):
        name = field.name if field.name in data else former.get(field.name)
        if name in data:
            values[field.name] = _value(hints[field.name], data[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BadRecord(f"{where}: {field.name!r} is missing")
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, value, where)
    if origin is typing.Literal:
        return _checked(value in arguments, value, f"one of {', '.join(map(str, arguments))}", where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is dict:
        _checked(isinstance(value, dict), value, "an object", where)
        return {str(key): _value(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        _checked(isinstance(value, dict), value, "an object", where)
        return _record(hint, value, where)
    return _scalar(hint, value, where)


def _union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first choice that fits; a dataclass whose `name` says which it is is the only one."""
    failures = []
    named = value.get("name") if isinstance(value, dict) else None
    for choice in [one for one in choices if named and getattr(one, "name", None) == named] or choices:
        try:
            return None if choice is type(None) and value is None else _value(choice, value, where)
        except BadRecord as failure:
            failures.append(str(failure))
    raise BadRecord(failures[0])


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _checked(isinstance(value, list), value, "a list", where)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_value(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    _checked(len(value) == len(arguments), value, f"a list of {len(arguments)}", where)
    pairs = enumerate(zip(arguments, value, strict=True))
    return tuple(_value(hint, item, f"{where}[{index}]") for index, (hint, item) in pairs)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(_checked(abs(value) < LARGEST_WHOLE, value, "a float", where))
    fits = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    return _checked(fits, value, getattr(hint, "__name__", str(hint)), where)


def _checked(fits: bool, value: Any, expected: str, where: str) -> Any:
    if not fits:
        raise BadRecord(f"{where}: expected {expected}, found {str(value)[:60]!r}")
    return value
