"""Notes the samplers that divide a dataset among ranks, torch's own and those of the script: order and epoch."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import BatchSampler, DistributedSampler

from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers

_MARK = "_scalewise_noted"
_MOST_NESTED = 4  # a batch sampler around a sampler around another one


def sampler_of(loader: Any) -> Any:
    """The object that decides a loader's order: its batch sampler, if the script wrote one, else its sampler."""
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    return batches.sampler if type(batches) is BatchSampler else batches


class Samplers:
    """A watcher of the sampler classes that are used in loaders."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._numbers = ObjectNumbers()

    def install(self) -> None:
        """Watches torch's own class from the start: its epoch may be set before any loader is made with it."""
        self._watch(DistributedSampler)

    def see(self, loader: Any) -> None:
        """Watches the classes of a new loader's samplers from now on."""
        for sampler in self.inside(loader):
            if _shares_out(sampler):
                self._watch(type(sampler))

    @staticmethod
    def inside(loader: Any) -> Iterator[Any]:
        """The samplers of a loader, from the outside in."""
        found = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        for _ in range(_MOST_NESTED):
            if found is None:
                return
            yield found
            found = getattr(found, "sampler", None)

    def _watch(self, kind: type) -> None:
        """Puts wrappers where the methods are defined; a class that cannot be changed stays as it is."""
        for name, note in (("__iter__", self._iterated), ("set_epoch", self._epoch_set)):
            owner = next((base for base in kind.__mro__ if name in vars(base)), None)
            method = None if owner is None else vars(owner)[name]
            if callable(method) and not hasattr(method, _MARK):
                setattr(owner, name, self._noted(name, method, note))

    def _noted(self, name: str, original: Any, note: Callable[[Any], None]) -> Any:
        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            sampler = receiver(args, kwargs)
            # A class may call its parent's method, at once or while it is iterated: only the outermost call counts.
            outermost = getattr(type(sampler), name, None) is noted
            result = original(*args, **kwargs)
            if outermost and self._notebook.on and _shares_out(sampler):
                try:
                    note(sampler)
                except Exception as error:
                    self._notebook.broke("sampler", error)
            return result

        setattr(noted, _MARK, True)
        return noted

    def _number(self, sampler: Any) -> int:
        number = self._numbers.of(sampler)
        return self._numbers.give(sampler) if number is None else number

    def _iterated(self, sampler: Any) -> None:
        values = (_integer(sampler, name) for name in ("seed", "rank", "num_replicas"))
        shuffles = bool(getattr(sampler, "shuffle", False))
        self._notebook.note("sampler", self._number(sampler), _integer(sampler, "epoch"), shuffles, *values)

    def _epoch_set(self, sampler: Any) -> None:
        self._notebook.note("set_epoch", self._number(sampler), _integer(sampler, "epoch"))


def _shares_out(sampler: Any) -> bool:
    """Returns whether a sampler knows of ranks or of epochs."""
    knows_ranks = hasattr(sampler, "num_replicas") and hasattr(sampler, "rank")
    return knows_ranks or callable(getattr(sampler, "set_epoch", None))


def _integer(sampler: Any, name: str) -> int:
    value = getattr(sampler, name, None)
    return value if type(value) is int else NOWHERE
