"""Passes everything that a script is given as data through one function: batches, random draws, inputs, targets.

A source has a key that is the same on every rank and in every run: what it is, and how often there was one. Who
installs the sources is asked for each value, and may note it or give another.
"""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.watch.recorder import Recorder

Key = tuple[Any, ...]
Take = Callable[[Key, Any], Any]
END = "the loader is at its end"
DRAWS = ("rand", "randn", "randint", "normal", "rand_like", "randn_like", "randint_like", "bernoulli")


class Sources:
    """The hooks of one process. `take` gets a key and a value, and returns the value to go on with."""

    def __init__(self, recorder: Recorder, take: Take) -> None:
        self.recorder = recorder
        self.take = take
        self.returned: Callable[[Any], None] = lambda result: None  # called with what the outermost module returns
        self.inside: nn.Module | None = None  # the outermost module under way
        self.fetching = False  # inside a loader's `__next__`, whose own draws are no source
        self.loaded = False  # a loader has delivered
        self._counts: dict[Key, int] = {}
        self._window = _AfterForward(self)
        self._main = threading.main_thread().ident

    def busy(self) -> bool:
        """True where nothing is a source: in another thread, in a fetch, in a backward pass, or when all is over."""
        return (
            self.fetching
            or bool(self.recorder.backward_depth)
            or not self.recorder.on
            or threading.get_ident() != self._main
        )

    def next(self, *key: Any) -> Key:
        """The key of the next source of this kind."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return (*key, count)

    def hand(self, key: Key, value: Any) -> Any:
        """Asks `take`; a fault of ours is noted, and the script's own value goes on."""
        try:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                return self.take(key, value)
        except Exception as error:
            self.recorder.broke("parity: what the script is given", error)
            return value

    def install(self, loaders: bool = True, draws: bool = True, inputs: bool = True) -> None:
        """Wraps what was asked for."""
        self._wrap_modules(inputs)
        if loaders:
            self._wrap_loaders()
        if draws:
            for name in DRAWS:
                setattr(torch, name, self._drawn(name, getattr(torch, name)))

    def _wrap_modules(self, inputs: bool) -> None:
        original = nn.Module.__call__

        @functools.wraps(original)
        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self.inside is not None or self.busy() or not torch.is_grad_enabled() or not _learns(module):
                return original(module, *args, **kwargs)
            self.inside = module
            self._window.close()
            try:
                if inputs:
                    args, kwargs = self.hand(self.next("input"), (args, kwargs))
                result = original(module, *args, **kwargs)
                self.returned(result)
                return result
            finally:
                self.inside = None
                if inputs:
                    self._window.open()

        nn.Module.__call__ = __call__  # type: ignore[method-assign]

    def _wrap_loaders(self) -> None:
        make, following = DataLoader.__iter__, _BaseDataLoaderIter.__next__
        numbers: dict[int, int] = {}
        kept: list[Any] = []  # so that no identity is given twice

        @functools.wraps(make)
        def __iter__(loader: Any) -> Any:
            if self.busy():
                return make(loader)
            if id(loader) not in numbers:
                numbers[id(loader)] = len(numbers)
                kept.append(loader)
            iterator = make(loader)
            numbers[id(iterator)] = numbers[id(loader)]
            kept.append(iterator)
            return iterator

        @functools.wraps(following)
        def __next__(iterator: Any) -> Any:
            if self.busy() or id(iterator) not in numbers:
                return following(iterator)
            self.fetching = True
            try:
                batch = following(iterator)
            except StopIteration:
                batch = END
            finally:
                self.fetching = False
            batch = self.hand(self.next("loader", numbers[id(iterator)]), batch)
            self.loaded = True
            if isinstance(batch, str) and batch == END:
                raise StopIteration
            return batch

        DataLoader.__iter__ = __iter__  # type: ignore[method-assign]
        _BaseDataLoaderIter.__next__ = __next__  # type: ignore[assignment, method-assign]
        self._wrap_length(numbers, kept)

    def _wrap_length(self, numbers: dict[int, int], kept: list[Any]) -> None:
        original = DataLoader.__len__
        order: dict[int, int] = {}  # loaders are asked before they are iterated, so they have numbers of their own

        @functools.wraps(original)
        def __len__(loader: Any) -> int:
            length = original(loader)
            if self.busy():
                return length
            if id(loader) not in order:
                order[id(loader)] = len(order)
                kept.append(loader)
            return int(self.hand(("length", order[id(loader)]), length))

        DataLoader.__len__ = __len__  # type: ignore[method-assign]

    def _drawn(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self.busy() or torch.compiler.is_compiling() or not isinstance(result, torch.Tensor):
                return result
            caller = sys._getframe(1)
            place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
            return self.hand(self.next("draw", name, place), result)

        return draw


def _learns(module: nn.Module) -> bool:
    return any(one.requires_grad for one in module.parameters())


class _AfterForward:
    """The stretch between a trained module's call and the backward pass, where data enters the loss."""

    def __init__(self, sources: Sources) -> None:
        self._mode: Any = _Entering(sources)
        self._on = False

    def open(self) -> None:
        """Begins to watch every torch function of this thread."""
        if not self._on:
            self._mode.__enter__()
            self._on = True

    def close(self) -> None:
        """Ends it, unless a mode of the script's lies above: then it goes on, and does nothing while a module runs."""
        if self._on and _get_current_function_mode_stack()[-1:] == [self._mode]:
            self._mode.__exit__(None, None, None)
            self._on = False


class _Entering(TorchFunctionMode):
    """A mode that passes on tensors without a gradient where they meet one with a gradient."""

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self._sources = sources

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the function, with other data if that is what is given."""
        kwargs = kwargs or {}
        sources = self._sources
        if sources.inside is None and not sources.busy() and torch.is_grad_enabled():
            found = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            if any(one.requires_grad for one in found) and not all(one.requires_grad for one in found):
                name = getattr(func, "__name__", "")
                args, kwargs = sources.hand(sources.next("target", name), (args, kwargs))
        return func(*args, **kwargs)


def exchanged(value: Any, exchange: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tuples, lists and dictionaries with other tensors in them; anything else stays."""
    if isinstance(value, torch.Tensor):
        return exchange(value)
    if isinstance(value, dict):
        made = {key: exchanged(one, exchange) for key, one in value.items()}
        return made if type(value) is dict else type(value)(made)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(exchanged(one, exchange) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(exchanged(one, exchange) for one in value)
    return value
