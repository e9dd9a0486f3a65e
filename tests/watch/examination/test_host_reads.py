"""A warning of torch about a read names the script's line, whether the read is noted or not."""

import traceback
import warnings
from types import SimpleNamespace

import pytest
import torch

from scalewise.watch.examination.device_traffic import HostReads
from scalewise.watch.seams import seam


@pytest.fixture(autouse=True)
def every_warning():
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


def watch_reads(monkeypatch, on_device: bool) -> list[object]:
    """Of `float(tensor)`; gives what is noted."""
    noted: list[object] = []
    places = SimpleNamespace(of_user=lambda code: True)
    notebook = SimpleNamespace(on=True, places=places, note=lambda *note: noted.append(note))
    monkeypatch.setattr(torch.Tensor, "__float__", torch.Tensor.__float__, raising=False)
    seam(torch.Tensor, "__float__").around(HostReads(notebook, lambda tensor: on_device).noted("__float__"))
    return noted


@pytest.mark.parametrize("on_device", [True, False])
def test_a_warning_names_the_line_that_reads(monkeypatch, on_device):
    noted = watch_reads(monkeypatch, on_device)
    tensor = torch.ones(1, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = float(tensor)
        line = test_a_warning_names_the_line_that_reads.__code__.co_firstlineno
    assert value == 1
    assert {one.filename for one in caught} == {__file__}
    assert all(line < one.lineno < line + 20 for one in caught)
    assert len(noted) == on_device


@pytest.mark.parametrize("on_device", [True, False])
def test_an_error_shows_the_scripts_line_once(monkeypatch, on_device):
    watch_reads(monkeypatch, on_device)
    with pytest.raises(ValueError, match="only one element") as raised:
        float(torch.ones(2, requires_grad=True))
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert files.count(__file__) == 1
    assert raised.value.__context__ is None
