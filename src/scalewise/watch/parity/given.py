"""Writes what data trained modules were given at each step, and keeps it where one rank is to be given all of it."""

import hashlib
import io
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from scalewise.records.folder import RunFolder
from scalewise.records.parity import GIVEN_FILE, AboutGivenRow, GivenRow
from scalewise.records.spec import Examined
from scalewise.watch.parity.sources import Key, Sources
from scalewise.watch.parity.tensor_rows import Tensors, tensors_in
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam

MOST_BYTES = 512 << 20  # kept by one rank
MOST_OF_ONE = 64 << 20
_MOST_LEAVES = 16
_LENGTH = struct.Struct("<Q")


def install(recorder: Recorder, folder: RunFolder, compared: Examined, tensors: Tensors) -> None:
    """Hooks into all sources if what they give is kept, else into modules alone."""
    given = _Given(recorder, folder, tensors, compared.keeps_given)
    sources = given.sources = Sources(recorder, given.take)
    sources.returned = given.returned
    tensors.on_step.append(given.step_begins)
    sources.install(loaders=compared.keeps_given, draws=compared.keeps_given)
    seam(torch, "manual_seed", also=[torch.random]).before(recorder, given.seeding)


@dataclass
class _Call:
    """One call of a trained module."""

    rows: int
    digests: list[tuple[int, int]]  # of each tensor: along its first dimension, and along its second
    learnt: bool = True  # the gradient came by

    def learn(self, gradient: torch.Tensor) -> None:
        """Notes that a gradient reached what the call returned."""
        self.learnt = True


def _by_leaf(calls: list[_Call]) -> list[list[tuple[int, int]]]:
    """The digests of each tensor over all calls that have as many tensors."""
    most = max((len(one.digests) for one in calls), default=0)
    return [[one.digests[leaf] for one in calls if leaf < len(one.digests)] for leaf in range(most)]


class _Given:
    """The data since the last step, and the file that keeps it."""

    def __init__(self, recorder: Recorder, folder: RunFolder, tensors: Tensors, keeps: bool) -> None:
        self._recorder = recorder
        self._tensors = tensors
        self._keeps = keeps
        self._path = Path(str(folder.path)) / GIVEN_FILE.format(recorder.rank)
        self._left = MOST_BYTES
        self._told: set[str] = set()
        self._calls: list[_Call] = []
        self.sources: Sources | None = None

    def take(self, key: Key, value: Any) -> Any:
        """Notes a value and hands it on as it is."""
        if not self._tensors.left:
            return value
        if key[0] == "input" and self.sources is not None and self.sources.inside is not None:
            if self._tensors.called(self.sources.inside) and self._keeps and not self._tensors.steps:
                self._keep_start(self.sources.inside)
            self._see(value)
        if self._keeps:
            self._keep(key, value)
        return value

    def step_begins(self, step: int) -> None:
        """Writes what the step rests on."""
        calls, self._calls = [one for one in self._calls if one.learnt], []
        sums = [[sum(one) % 2**64 for one in zip(*leaf, strict=True)] for leaf in _by_leaf(calls)]
        along, across = (tuple(f"{one[dim]:016x}" for one in sums) for dim in (0, 1))
        rows = sum(one.rows for one in calls)
        self._recorder.journal.row(GivenRow(step, len(calls), rows, along, across, _generator()))

    def returned(self, result: Any) -> None:
        """Waits for a gradient of what a module has returned: without one, the call was an evaluation."""
        if not self._tensors.left or not self._calls:
            return
        plain = [one for one in tensors_in(result) if type(one) is torch.Tensor]
        self._calls[-1].learnt = not plain  # of what is no plain tensor it cannot be told
        for one in plain:
            if one.requires_grad:
                one.register_hook(self._calls[-1].learn)

    def seeding(self, args: tuple[Any, ...], kwargs: Given) -> None:
        """Tells that the script seeds torch itself."""
        self._tell("seeded", "torch.manual_seed")

    def _see(self, value: Any) -> None:
        leaves = [one for one in tensors_in(value) if not one.requires_grad and one.dim()][:_MOST_LEAVES]
        digests = [(_digest(leaf), _digest(leaf.transpose(0, 1)) if leaf.dim() > 1 else 0) for leaf in leaves]
        self._calls.append(_Call(leaves[0].shape[0] if leaves else 0, digests))

    def _keep_start(self, module: nn.Module) -> None:
        for name, (shape, values, places, _, _) in self._tensors.parts(module):
            self._keep(("start", name), (shape, values, places))

    def _keep(self, key: Key, value: Any) -> None:
        if key[0] in ("loader", "draw"):
            self._tell("source", str(key[0]))
        size = sum(one.numel() * one.element_size() for one in tensors_in(value))
        if size > MOST_OF_ONE or size > self._left:
            self._tell("too large", f"{key[0]}")
            return
        self._left -= size
        held = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save((key, _plain(value)), held)
        data = held.getvalue()
        with self._path.open("ab") as file:
            file.write(_LENGTH.pack(len(data)) + data)

    def _tell(self, what: Any, detail: str) -> None:
        if f"{what} {detail}" not in self._told:
            self._told.add(f"{what} {detail}")
            self._recorder.journal.row(AboutGivenRow(what, detail))


def _plain(value: Any) -> Any:
    """A copy without gradients and modules; what is neither a tensor nor a plain value is left out."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad or type(value) not in (torch.Tensor, nn.Parameter, nn.Buffer):
            return None
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_plain(one) for one in value)
    return value if isinstance(value, (int, float, str, bool, type(None))) else None


def read_given(path: Path) -> dict[Key, Any]:
    """Everything that a rank has kept, by its key; a last piece that was cut off is left out."""
    found: dict[Key, Any] = {}
    data = path.read_bytes() if path.exists() else b""
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            break
        key, value = torch.load(io.BytesIO(data[at : at + length]), weights_only=False)
        found[key] = value
        at += length
    return found


def _generator() -> str:
    """A digest of the state of torch's generator on the host."""
    return hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).hexdigest()


def _digest(tensor: torch.Tensor) -> int:
    """The sum over rows of a hash of each; the order of rows makes no difference."""
    host = tensor.detach().cpu().contiguous()
    if host.dtype is torch.bfloat16:
        host = host.view(torch.int16)
    rows = host.reshape(host.shape[0], -1).numpy()
    raw = np.ascontiguousarray(rows).view(np.uint8).reshape(rows.shape[0], -1)
    pad = -raw.shape[1] % 8
    words = np.pad(raw, ((0, 0), (0, pad))).view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = words * _weights(words.shape[1])
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        sums = mixed.sum(axis=1, dtype=np.uint64)
        sums ^= sums >> np.uint64(32)
        sums *= np.uint64(0x94D049BB133111EB)
        return int(sums.sum(dtype=np.uint64))


def _weights(count: int) -> Any:
    return np.random.default_rng(0).integers(1, 2**63, size=count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
