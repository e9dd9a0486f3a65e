"""What wraps a model is declared in one file for each kind, and known by it everywhere."""

import pytest
import torch
from torch import nn

from scalewise.watch import wrappers
from scalewise.watch.examination.wrappers import Wrappers
from scalewise.watch.wrappers import inner_of, kind_of, kinds

OWN = '''"""Declares a wrapper of the user's own."""

from scalewise.watch.wrappers import WrapperKind

KIND = WrapperKind(
    name="Own", classes=("test_wrappers.OwnWrapper",), exchange="replicas", inner="model", options=("every",),
    synchronises=lambda wrapper: wrapper.every > 1,
)
'''


class OwnWrapper(nn.Module):
    """A wrapper that no library has."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.every = model, 2


class Derived(nn.DataParallel):
    """A class of a user's own that is still of a known kind."""


class Book:
    """Stands for a notebook and for its loop."""

    def __init__(self) -> None:
        self.notebook = self.places = self
        self.rows: list[object] = []
        self.row = self.rows.append

    def here(self) -> int:
        return 7


@pytest.fixture
def one_more(tmp_path, monkeypatch):
    """The kinds with one more file."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setattr(wrappers, "__path__", [*wrappers.__path__, str(tmp_path)])
    for known in (kinds, wrappers._kind_of_class):
        known.cache_clear()
    yield
    monkeypatch.undo()
    for known in (kinds, wrappers._kind_of_class):
        known.cache_clear()


def test_the_wrappers_of_torch_are_known_by_the_class_they_derive_from() -> None:
    assert {kind.name for kind in kinds()} == {"DistributedDataParallel", "DataParallel", "FSDP"}
    model = nn.Linear(2, 2)
    wrapper = Derived(model)
    assert kind_of(wrapper).name == "DataParallel" and inner_of(wrapper) is model
    assert kind_of(model) is None and inner_of(model) is None


def test_a_class_of_the_same_name_that_is_not_torchs_is_no_wrapper() -> None:
    assert kind_of(type("DataParallel", (nn.Module,), {})()) is None


def test_every_kind_says_which_class_of_torch_it_is_if_it_is_noted_when_made() -> None:
    for kind in kinds():
        name = kind.made.removeprefix("torch.").split(".") if kind.made else []
        found = torch
        for part in name:
            found = getattr(found, part)
        assert not name or f"torch.{found.__name__}" in kind.classes


def test_one_more_kind_is_one_more_file(one_more) -> None:
    model = nn.Linear(2, 2)
    wrapper, book = OwnWrapper(model), Book()
    wrappers = Wrappers(book)

    assert inner_of(wrapper) is model
    assert wrappers.called(wrapper) == (0, True) and wrappers.bypassed_by(model) == 0
    wrapper.every = 1
    assert wrappers.called(wrapper) == (0, False)
    (row,) = book.rows
    assert (row.wrapper, row.options, row.ranks) == ("Own", {"every": 2}, ())
