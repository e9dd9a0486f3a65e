"""Finds one argument of a call, however the script has passed it: by position, by name, or not at all."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_Given = tuple[tuple[Any, ...], dict[str, Any]]


def receiver(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The object a method is called on: the first positional argument, or `self` by name, which Python also allows."""
    return args[0] if args else kwargs.get("self")


class Argument:
    """One parameter of a function, whose position is looked up once."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        names = list(inspect.signature(function).parameters)
        self.name = name
        self._position = names.index(name) if name in names else len(names)

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], default: Any = None) -> Any:
        """The value that a call gives for this parameter; the default if it gives none."""
        if self.name in kwargs:
            return kwargs[self.name]
        return args[self._position] if len(args) > self._position else default

    def replaced(self, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Given:
        """The arguments of the call with another value for this parameter."""
        if self.name not in kwargs and len(args) > self._position:
            return (*args[: self._position], value, *args[self._position + 1 :]), dict(kwargs)
        return args, {**kwargs, self.name: value}
