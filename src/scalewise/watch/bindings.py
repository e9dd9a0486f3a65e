"""Finds where modules hold a function by a name, to put another one in its place.

A module that says `from warnings import warn` keeps a name of its own for it. In a process that is a copy of another,
looking at each name of two thousand modules would copy a page of memory for every few of them. So the process that is
copied looks once, for all its copies (`look_through_modules`), and a copy looks at later modules only.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

from scalewise.records.collectives import FUNCTIONAL

Place = tuple[str, str]  # module and name
_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_places: dict[int, list[Place]] = {}  # by the id of the function
_newest = ""  # the last module that was looked through; empty: none was


def look_through_modules() -> None:
    """Notes where every function is, for all copies of this process."""
    global _newest
    _places.clear()
    for module, name, value in _names(list(sys.modules)):
        if type(value) in _FUNCTIONS:
            _places.setdefault(id(value), []).append((module, name))
    _newest = next(reversed(sys.modules))


def put(replaced: Iterable[tuple[Callable[..., Any], Callable[..., Any]]], within: str = "") -> None:
    """Puts new functions in place of old ones, by whatever name a module has them; `within`: those of one package."""
    pairs = list(replaced)
    new_of = {id(old): (old, new) for old, new in pairs}
    later = list(itertools.takewhile(lambda module: module != _newest, reversed(sys.modules)))
    found = [(module, name, id(value)) for module, name, value in _names(later) if id(value) in new_of]
    found += [(module, name, one) for one in new_of for module, name in _places.get(one, ())]
    for module, name, one in found:
        namespace = _namespace(module)
        old, new = new_of[one]
        if namespace.get(name) is old and (not within or f"{module}.".startswith(f"{within}.")):
            namespace[name] = new
        if namespace.get(name) is new:  # also where it was put before
            _places.setdefault(id(new), []).append((module, name))
    # Where dynamo looks up what stands for a collective in a graph.
    remaps = getattr(sys.modules.get(FUNCTIONAL), "traceable_collective_remaps", {})
    remaps.update({new: remaps[old] for old, new in pairs if old in remaps})


def _names(modules: Iterable[str]) -> Iterator[tuple[str, str, Any]]:
    for module in modules:
        for name, value in list(_namespace(module).items()):
            yield module, name, value


def _namespace(module: str) -> dict[str, Any]:
    found = getattr(sys.modules.get(module), "__dict__", None)
    return found if isinstance(found, dict) else {}
