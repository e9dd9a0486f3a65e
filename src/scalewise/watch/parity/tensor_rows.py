"""Writes gradients and parameters of the first optimizer steps as a few sums, so that runs can be compared."""

import json
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from scalewise.records.parity import PROJECTIONS, SettingsOfGroupsRow, TensorRow
from scalewise.records.spec import Examined
from scalewise.watch.examination.tensors import quietly
from scalewise.watch.hooks.optimizer import changes_nothing
from scalewise.watch.probe_torch import world_size
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

_PERIOD = 65_537  # a prime, so that no layer's rows line up with the signs
Part = tuple[tuple[int, ...], torch.Tensor, Any, int, bool]  # see `part_of`
_WRAPPERS = {"module", "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}


def install(recorder: Recorder, compared: Examined) -> "Tensors":
    """Subscribes a look before each step that really runs: by then scalers have unscaled and clips have clipped."""
    tensors = Tensors(recorder, compared)

    def parity(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if tensors.left and not changes_nothing(optimizer, (optimizer, *args), kwargs):
            tensors.before_step(optimizer)

    def parity_is_over(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        tensors.after_step(optimizer)

    step_hooks.before(recorder, parity)
    step_hooks.after(recorder, parity_is_over)
    return tensors


class Tensors:
    """The modules and optimizers of the script, and how many of their steps have been written."""

    def __init__(self, recorder: Recorder, compared: Examined) -> None:
        self._recorder = recorder
        self._most = compared.compared_steps
        self._roots: list[weakref.ref[nn.Module]] = []
        self._optimizers: list[weakref.ref[Optimizer]] = []
        self._steps: dict[int, int] = {}
        self._outer: Optimizer | None = None  # at its step; another inside it is a part of it
        self._whole = _shapes(compared.shapes)
        self.on_step: list[Callable[[int], None]] = []  # called before each outermost step, with its number

    @property
    def left(self) -> bool:
        """True while there are steps to be written."""
        return self._steps.get(0, 0) < self._most

    @property
    def steps(self) -> int:
        """The number of steps that the first optimizer has begun."""
        return self._steps.get(0, 0)

    def called(self, module: nn.Module) -> bool:
        """Remembers a module that the script calls itself, as names of parameters come from it; True if it is new."""
        if any(one() is module for one in self._roots):
            return False
        self._roots.append(weakref.ref(module))
        return True

    def parts(self, module: nn.Module) -> Iterator[tuple[str, Part]]:
        """Yields the parameters of a module as this rank holds them, by name."""
        for name, one in module.named_parameters():
            yield plain_name(name), part_of(one.detach(), self._whole.get(plain_name(name)))

    def before_step(self, optimizer: Optimizer) -> None:
        """Writes parameters and gradients, which an optimizer inside another may show in a later state."""
        number = self._number(self._outer or optimizer)
        if self._outer is None or self._outer is optimizer:
            self._outer = optimizer
            if number == 0:
                self._write_parameters()
                for tell in self.on_step:
                    tell(self.steps)
            self._write_settings(number, optimizer)
        self._write_gradients(number, optimizer)
        self._recorder.journal.flush()

    def after_step(self, optimizer: Optimizer) -> None:
        """Counts the step when the outermost optimizer has ended it."""
        if self._outer is optimizer:
            number = self._number(optimizer)
            self._steps[number] = self._steps.get(number, 0) + 1
            self._outer = None

    def _number(self, optimizer: Optimizer) -> int:
        for number, held in enumerate(self._optimizers):
            if held() is optimizer:
                return number
        self._optimizers.append(weakref.ref(optimizer))
        return len(self._optimizers) - 1

    def _write_parameters(self) -> None:
        step = self.steps
        for name, one in self._named().values():
            if one.is_floating_point() and (one.requires_grad or not step):
                self._write(step, "parameter", name, one)

    def _write_gradients(self, number: int, optimizer: Optimizer) -> None:
        names = self._named()
        scale: Any = getattr(optimizer, "grad_scale", None)  # a fused optimizer divides by it itself
        for group, settings in enumerate(optimizer.param_groups):
            for index, one in enumerate(settings["params"]):
                if one.grad is not None:
                    name, _ = names.get(id(one), (f"optimizer{number}.{group}.{index}", one))
                    gradient = one.grad if scale is None else one.grad / float(scale)
                    self._write(self._steps.get(number, 0), "gradient", name, gradient)

    def _write_settings(self, number: int, optimizer: Optimizer) -> None:
        found = {
            f"{index}.{key}": float(value)
            for index, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if type(value) in (int, float)
        }
        self._recorder.journal.row(SettingsOfGroupsRow(self._steps.get(number, 0), number, found))

    def _named(self) -> dict[int, tuple[str, Any]]:
        """Every parameter by its identity, with the name that it has whatever wraps its module."""
        found: dict[int, tuple[str, Any]] = {}
        roots = [root for held in self._roots if (root := held()) is not None]
        for number, root in enumerate(roots):
            prefix = f"model{number}." if len(roots) > 1 else ""
            for name, one in root.named_parameters():
                found.setdefault(id(one), (prefix + plain_name(name), one))
        optimizers = [optimizer for held in self._optimizers if (optimizer := held()) is not None]
        for number, optimizer in enumerate(optimizers):
            for group, settings in enumerate(optimizer.param_groups):
                for index, one in enumerate(settings["params"]):
                    found.setdefault(id(one), (f"optimizer{number}.{group}.{index}", one))
        return found

    def _write(self, step: int, what: Any, name: str, tensor: Any) -> None:
        with quietly():
            shape, values, places, copies, recognised = part_of(tensor, self._whole.get(name))
            squares, projections, finite = _sums(values, places)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._recorder.journal.row(
            TensorRow(step, what, name, shape, dtype, squares, projections, not finite, copies, recognised)
        )


def _shapes(path: str) -> dict[str, tuple[int, ...]]:
    if not path:
        return {}
    return {name: tuple(shape) for name, shape in json.loads(Path(path).read_text(encoding="utf-8")).items()}


def plain_name(name: str) -> str:
    """The name of a parameter without the wrappers around its module."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def part_of(tensor: Any, whole: tuple[int, ...] | None) -> Part:
    """The whole shape, this rank's values, where they stand in the whole, how many ranks hold them, and if guessed."""
    if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
        return _part_of_dtensor(tensor)
    own = tuple(tensor.shape)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if whole is None or whole == own:
        return own, tensor.reshape(-1), None, 0, False
    differing = [dim for dim, (a, b) in enumerate(zip(own, whole, strict=False)) if a != b]
    ranks = world_size()
    if len(own) != len(whole) or len(differing) != 1 or ranks < 2:
        return own, tensor.reshape(-1), None, 0, False
    (dim,) = differing
    if not own[dim] * (ranks - 1) < whole[dim] <= own[dim] * ranks:
        return own, tensor.reshape(-1), None, 0, False
    start = [0] * len(own)
    start[dim] = torch.distributed.get_rank() * own[dim]
    kept = tensor.narrow(dim, 0, max(0, min(own[dim], whole[dim] - start[dim])))  # the rest is padding
    return whole, kept.reshape(-1), _places(whole, tuple(kept.shape), tuple(start)), 1, True


def _part_of_dtensor(tensor: Any) -> Part:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local, mesh = tensor._local_tensor, tensor.device_mesh
    whole = tuple(tensor.shape)
    _, start = compute_local_shape_and_global_offset(tensor.shape, mesh, tensor.placements)
    split = 1
    for dim, placement in enumerate(tensor.placements):
        split *= 1 if placement.is_replicate() else mesh.size(dim)
    if tuple(local.shape) == whole and split == 1:
        return whole, local.reshape(-1), None, 0, False
    places = _places(whole, tuple(local.shape), tuple(start)) if local.numel() else None
    return whole, local.reshape(-1), places, max(1, world_size() // split), False


def _places(whole: tuple[int, ...], part: tuple[int, ...], start: tuple[int, ...]) -> torch.Tensor:
    """The place of each element of a part in the whole, as if the whole lay in a row."""
    places, stride = torch.zeros((), dtype=torch.int64), 1
    for dim in reversed(range(len(whole))):
        along = (torch.arange(part[dim]) + start[dim]) * stride
        places = places + along.reshape([-1] + [1] * (len(whole) - 1 - dim))
        stride *= whole[dim]
    return places.reshape(-1)


def _sums(values: torch.Tensor, places: torch.Tensor | None) -> tuple[float, tuple[float, ...], bool]:
    """The sum of squares, the projections, and whether all values are finite."""
    values = values.detach().double()
    good = values.isfinite()
    finite = bool(good.all())
    if not finite:
        values = torch.where(good, values, 0.0)
    if places is not None:
        folded = values.new_zeros(_PERIOD).index_add_(0, (places % _PERIOD).to(values.device), values)
    else:
        folded = _folded(values)
    projections = _signs(values.device)[:, : folded.numel()] @ folded
    return float(values.square().sum()), tuple(projections.tolist()), finite


def _folded(values: torch.Tensor) -> torch.Tensor:
    """The sum of all pieces of a period's length: the signs are the same for each of them."""
    count = values.numel()
    if count <= _PERIOD:
        return values
    whole = count // _PERIOD * _PERIOD
    folded = values[:whole].view(-1, _PERIOD).sum(0)
    folded[: count - whole] += values[whole:]
    return folded


@cache
def _signs(device: torch.device) -> torch.Tensor:
    """Random signs from a generator of their own: the script's random numbers stay as they are."""
    generator = torch.Generator().manual_seed(zlib.crc32(b"parity"))
    signs = torch.randint(0, 2, (PROJECTIONS, _PERIOD), generator=generator, dtype=torch.int8) * 2 - 1
    return signs.to(device).double()


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors in tuples, lists and dictionaries, depth first."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one)
