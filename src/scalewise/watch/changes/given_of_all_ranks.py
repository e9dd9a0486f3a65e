"""Gives one rank the data that all ranks of another run were given, laid one below the other or one after the other.

`layer`: sources (batches of loaders and random draws) or inputs (of modules, and what else enters the loss). `order`:
forward, or backward with the last rank's data first; in-turn gives one rank after the other, call by call.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.records.parity import GIVEN_FILE, AboutGivenRow
from scalewise.watch.parity.given import read_given
from scalewise.watch.parity.sources import END, Key, Sources
from scalewise.watch.recorder import Recorder

NAME = "given_of_all_ranks"
CHANGE = Declared(
    settings={"folder": "words", "ranks": "whole", "layer": "words", "order": "words"},
    example="given_of_all_ranks:folder=run,ranks=2,layer=sources,order=forward",
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Reads what the ranks were given, and stands around every source."""
    folder, ranks = Path(str(settings["folder"])), int(settings["ranks"])
    given = [read_given(folder / GIVEN_FILE.format(rank)) for rank in range(ranks)]
    feed = _Feed(recorder, given, str(settings["layer"]), str(settings["order"]))
    feed.sources = Sources(recorder, feed.take)
    of_sources = settings["layer"] == "sources"
    feed.sources.install(loaders=of_sources, draws=True, inputs=not of_sources)


class Misfit(Exception):
    """Raised when the data of ranks cannot be laid together."""


class _Feed:
    """The data of all ranks by key, and what takes the place of the script's own."""

    def __init__(self, recorder: Recorder, given: Sequence[Mapping[Key, Any]], layer: str, order: str) -> None:
        self._recorder = recorder
        self._given = given
        self._order = order
        self._layer = layer
        self._loads = any(key[0] == "loader" for one in given for key in one)
        self._told: set[str] = set()
        self.sources: Sources | None = None

    def take(self, key: Key, value: Any) -> Any:
        """Returns what all ranks were given at this place, or the script's own value where they were given the same."""
        if not self._wanted(key):
            return value
        if self._order.startswith("in-turn") and key[0] != "length":
            return self._in_turn(key, value)
        if not all(key in one for one in self._given):
            return value
        found = [one[key] for one in self._given]
        try:
            taken = found[0] if key[0] == "length" else self._together(key, found, value)
        except Misfit as misfit:
            if str(misfit) not in self._told:
                self._told.add(str(misfit))
                self._recorder.journal.row(AboutGivenRow("misfit", str(misfit)))
            return value
        if taken is not value:
            self._recorder.intervene(NAME)
        return taken

    def _in_turn(self, key: Key, value: Any) -> Any:
        """Returns what the rank whose turn it is was given at this place."""
        ranks = len(self._given)
        turn, count = (key[-1] - 1) % ranks, (key[-1] - 1) // ranks + 1
        given = self._given[ranks - 1 - turn if self._order.endswith("backward") else turn]
        found = given.get((*key[:-1], count))
        if found is None:
            return value
        self._recorder.intervene(NAME)
        return _taken(found, value)

    def _wanted(self, key: Key) -> bool:
        if key[0] != "draw" or self.sources is None:
            return True
        if self._layer == "inputs":
            return self.sources.inside is not None
        return self.sources.loaded or not self._loads

    def _together(self, key: Key, found: list[Any], own: Any) -> Any:
        if key[0] == "loader":
            ended = [isinstance(one, str) and one == END for one in found]
            if any(ended):
                return END if all(ended) or isinstance(own, str) else own
        if key[0] == "draw":
            return self._draw(found, own)
        sizes = _sizes(found, own)
        if sizes is None:  # every rank was given this, so one rank is given it, too
            return _taken(found[0], own)
        return self._laid(found, own, sizes)

    def _draw(self, found: list[Any], own: torch.Tensor) -> Any:
        same = all(_equal(found[0], one) for one in found[1:])
        if own.dim() == 0 or any(one is None or one.dim() == 0 for one in found):
            if same:
                return own if found[0] is None else _taken(found[0], own)
            raise Misfit("a single random number differs between ranks")
        if any(one.shape[1:] != found[0].shape[1:] for one in found):
            raise Misfit("random draws of ranks have different shapes")
        laid = self._cat(found)
        if laid.shape == own.shape or not same:
            return laid.to(own.device)
        return _taken(found[0], own)

    def _laid(self, found: Sequence[Any], own: Any, sizes: list[int]) -> Any:
        """Lays tensors together that hold one row for each sample, in the shape of the script's own value."""
        first = found[0]
        if isinstance(own, torch.Tensor) and own.requires_grad:
            return own
        if isinstance(first, torch.Tensor):
            return self._laid_tensors(list(found), own, sizes)
        shape = own if not (isinstance(own, str) and own == END) else first
        if isinstance(first, dict) and isinstance(shape, dict):
            made = {name: self._laid([one[name] for one in found], shape.get(name), sizes) for name in first}
            return made if type(shape) is dict else type(shape)(made)
        if isinstance(first, tuple) and isinstance(shape, (tuple, list)):
            if [isinstance(one, str) for one in first] == [True] * len(first) and [*map(len, found)] == sizes:
                return type(shape)(name for one in self._ordered(found) for name in one)
            inner = [
                self._laid([one[index] for one in found], shape[index] if index < len(shape) else None, sizes)
                for index in range(len(first))
            ]
            return type(shape)(*inner) if hasattr(shape, "_fields") else type(shape)(inner)
        return shape

    def _laid_tensors(self, found: list[torch.Tensor], own: Any, sizes: list[int]) -> Any:
        per_sample = all(one.dim() and one.shape[0] == size for one, size in zip(found, sizes, strict=True))
        if not per_sample and all(_equal(found[0], one) for one in found[1:]):
            return _taken(found[0], own)
        if any(one.dim() == 0 for one in found):
            raise Misfit("a single number that enters the loss differs between ranks")
        if any(one.shape[1:] != found[0].shape[1:] for one in found):
            shapes = " and ".join("x".join(map(str, one.shape)) for one in found)
            raise Misfit(f"tensors of {shapes} cannot be laid one below the other")
        laid = self._cat(found)
        return laid.to(own.device) if isinstance(own, torch.Tensor) else laid

    def _ordered(self, found: Sequence[Any]) -> Sequence[Any]:
        return found[::-1] if self._order == "backward" else found

    def _cat(self, found: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([*self._ordered(found)])


def _taken(found: Any, own: Any) -> Any:
    """One rank's value, in the shape of the script's own; what has a gradient, or could not be kept, stays."""
    if found is None or (isinstance(own, torch.Tensor) and own.requires_grad):
        return own
    if isinstance(found, torch.Tensor):
        return found.to(own.device) if isinstance(own, torch.Tensor) else found
    if isinstance(found, dict) and isinstance(own, dict):
        made = {name: _taken(one, own.get(name)) for name, one in found.items()}
        return made if type(own) is dict else type(own)(made)
    if isinstance(found, tuple) and isinstance(own, (tuple, list)) and len(found) == len(own):
        inner = [_taken(one, mine) for one, mine in zip(found, own, strict=True)]
        return type(own)(*inner) if hasattr(own, "_fields") else type(own)(inner)
    return found if isinstance(found, str) else own


def _sizes(found: Sequence[Any], own: Any) -> list[int] | None:
    """The rows of each rank in the first tensor that differs between ranks; None if nothing differs."""
    columns = [list(_leaves(one)) for one in found]
    if len({len(one) for one in columns}) > 1:
        raise Misfit("ranks were given different numbers of tensors")
    for leaves in zip(*columns, strict=True):
        if leaves[0].dim() and not all(_equal(leaves[0], one) for one in leaves[1:]):
            return [one.shape[0] for one in leaves]
    for leaves in zip(*columns, strict=True):
        if not all(_equal(leaves[0], one) for one in leaves[1:]):
            raise Misfit("a single number that enters the loss differs between ranks")
    return None


def _leaves(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(a, b))
