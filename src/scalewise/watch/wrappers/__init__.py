"""Says what wraps a model: one file for each kind of wrapper, which declares it as `KIND`.

A class of a user's own that derives from a known one is of that one's kind. A kind that is not known is a module like
any other.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

Options = dict[str, str | int | float | bool]
# reducer: DDP's own, in C++; replicas: inside one process; shards: each rank holds a part of the parameters.
Exchange = Literal["reducer", "replicas", "shards"]


@dataclass(frozen=True)
class WrapperKind:
    """One kind of wrapper."""

    name: str  # as records say it
    classes: tuple[str, ...]  # package and name of the classes of which one is a base of every such wrapper
    exchange: Exchange  # how gradients are brought together
    made: str = ""  # the class whose construction is noted; empty: such a wrapper is found when it is called
    inner: str = "module"  # the attribute that holds the wrapped module; empty: it is changed in place
    synchronises: Callable[[Any], bool] = lambda wrapper: True  # whether the next backward pass brings them together
    ranks: Callable[[Any], tuple[int, ...]] = lambda wrapper: group_ranks(wrapper)
    options: tuple[str, ...] = ()  # attributes that hold what it was told
    more_options: Callable[[Any], Options] = lambda wrapper: {}

    def options_of(self, wrapper: Any) -> Options:
        """The options of a wrapper, as the wrapper keeps them."""
        found: Mapping[str, Any] = {name: getattr(wrapper, name, None) for name in self.options}
        plain = {name: value for name, value in found.items() if isinstance(value, (bool, int, float, str))}
        return {**plain, **self.more_options(wrapper)}


@functools.cache
def kinds() -> tuple[WrapperKind, ...]:
    """All kinds: one for each file."""
    files = sorted(file.stem for folder in __path__ for file in Path(folder).glob("[a-z]*.py"))
    return tuple(importlib.import_module(f"{__name__}.{name}").KIND for name in files)


def kind_of(module: Any) -> WrapperKind | None:
    """The kind of a wrapper; None for a module that is none."""
    made: Any = type(module)
    return _kind_of_class(made)


@functools.cache
def _kind_of_class(made: type) -> WrapperKind | None:
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in made.__mro__}
    return next((kind for kind in kinds() if bases & {*kind.classes}), None)


def inner_of(module: Any) -> nn.Module | None:
    """The module inside a wrapper; None if it is no wrapper, or one that changes its module in place."""
    kind = kind_of(module)
    inner = getattr(module, kind.inner, None) if kind is not None and kind.inner else None
    return inner if isinstance(inner, nn.Module) else None


def group_ranks(wrapper: Any) -> tuple[int, ...]:
    """The ranks of the process group that a wrapper works in; empty if it has none."""
    group = getattr(wrapper, "process_group", None)
    if group is None or not torch.distributed.is_initialized():
        return ()
    return tuple(torch.distributed.get_process_group_ranks(group))
