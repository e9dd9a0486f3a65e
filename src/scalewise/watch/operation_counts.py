"""Counts the floating-point operations and the bytes of a step, operator by operator, as torch dispatches them."""

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from scalewise.watch.families import VIEWS, family_of

_NO_MOVES = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh", "set_")
)
_ONLY_WRITES = frozenset(f"aten::{name}" for name in ("copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_"))
# Operators that touch only a part of their first tensor, as large as what they take or give.
_PART_READS = frozenset(f"aten::{name}" for name in ("embedding", "index", "index_select", "gather", "take"))
_PART_WRITES = frozenset(
    f"aten::{name}" for name in ("index_put_", "index_put", "index_add_", "index_copy_", "scatter_", "scatter_add_")
)
_CHECKPOINT_FILE = os.path.join("torch", "utils", "checkpoint.py")
_DTYPES = {
    "float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16",
    "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2", "signed char": "int8",
    "unsigned char": "uint8",
}  # fmt: skip

Shape = Sequence[int]
# Factors and targets of matrix products come after their tensors, and are not passed to their formulas.
_PRODUCT_TENSORS = {"aten::mm": 2, "aten::bmm": 2, "aten::addmm": 3, "aten::baddbmm": 3, "aten::_scaled_mm": 2}


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """The flops of the scores and of their product with the values; queries may have more heads than keys."""
    *batch, queries, width = query
    return 2 * math.prod(batch) * queries * key[-2] * (width + value[-1])


def _attention_backward(_: Shape, query: Shape, key: Shape, value: Shape, *__: Any, **___: Any) -> int:
    """The flops of five products: fused kernels compute the scores anew."""
    *batch, queries, width = query
    return 2 * math.prod(batch) * queries * key[-2] * (3 * width + 2 * value[-1])


def _times_vector(matrix: Shape, *_: Any, **__: Any) -> int:
    return 2 * matrix[0] * matrix[1]


# Formulas that torch's own table lacks, or has for some shapes only; they take shapes.
_MORE_FORMULAS: dict[str, Callable[..., int]] = {
    "aten::mv": _times_vector,
    "aten::addmv": lambda _, matrix, *__, **___: _times_vector(matrix),
    "aten::dot": lambda vector, *_, **__: 2 * vector[0],
    "aten::vdot": lambda vector, *_, **__: 2 * vector[0],
}
for _kind in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu"):
    _MORE_FORMULAS[f"aten::_scaled_dot_product_{_kind}"] = _attention
    _MORE_FORMULAS[f"aten::_scaled_dot_product_{_kind}_backward"] = _attention_backward
_TORCH_FORMULAS: dict[str, Callable[..., int]] = {
    packet._qualified_op_name: formula
    for packet, formula in flop_registry.items()
    if hasattr(packet, "_qualified_op_name")
}
FORMULAS = frozenset(_MORE_FORMULAS) | frozenset(_TORCH_FORMULAS)


def flops_of(name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    """The flops of one call of an operator that has a formula; tensors may be given as such or as their shapes."""
    if name in _MORE_FORMULAS:
        return _MORE_FORMULAS[name](*(one.shape if isinstance(one, torch.Tensor) else one for one in args))
    return int(_TORCH_FORMULAS[name](*args, **kwargs, out_val=result))


def without_masked_half(flops: int, queries: int, keys: int) -> int:
    """The flops of causal attention, which needs only the pairs on and below the diagonal."""
    return flops * (queries + 1) // (2 * queries) if queries == keys and queries else flops


def precision_of(dtype: str, device: str, name: str) -> str:
    """The dtype, or tf32 if the GPU may round float32 to it."""
    if dtype != "float32" or device != "cuda":
        return dtype
    return "tf32" if _rounds_to_tf32("conv" if family_of(name) == "convolution" else "matmul") else dtype


def _rounds_to_tf32(kind: str) -> bool:
    """Returns whether the script allows TF32, by the new setting or the old, which fails once the new one was used."""
    reader = getattr(torch._C, "_get_fp32_precision_getter", None)
    if reader is not None:
        set_to = str(reader("cuda", kind))
        if set_to != "none":
            return set_to == "tf32"
    return bool(torch._C._get_cudnn_allow_tf32() if kind == "conv" else torch._C._get_cublas_allow_tf32())


def cache_bytes(device: torch.device) -> int | None:
    """The size of the last cache before the memory of the device; None if it cannot be read."""
    if device.type == "cuda":
        size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
        return int(size) or None
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text(encoding="ascii").strip()
    except OSError:
        return None
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 0)
    return int(text[:-1]) * unit if unit and text[:-1].isdecimal() else None


class StepCounts:
    """The counts of a step; one instance for all threads."""

    def __init__(self, counting: Callable[[], bool], in_backward: Callable[[], bool]) -> None:
        self._counting, self._in_backward = counting, in_backward
        self.error: Exception | None = None
        self.begin()

    def begin(self) -> None:
        """Begins to count a new step."""
        self.flops: Counter[str] = Counter()
        self.recomputed: Counter[str] = Counter()
        self.operand_bytes = self.streamed_bytes = 0
        self.cache_bytes: int | None = None
        self._cache_of: torch.device | None = None

    def see(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Counts one finished operation. A fault of ours ends the counting, never the script."""
        if self.error is not None or not self._counting():
            return
        try:
            self._add(func, args, kwargs, result)
        except Exception as error:
            self.error = error

    def _add(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        packet = getattr(func, "_overloadpacket", None)
        name = getattr(packet, "_qualified_op_name", "")
        if not name or getattr(func, "is_view", False) or name in VIEWS or name in _NO_MOVES:
            return
        sizes = list(_moved_bytes(name, func._schema, args, kwargs, result))
        self.operand_bytes += sum(sizes)
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if tensors and tensors[0].device != self._cache_of:
            self._cache_of = tensors[0].device
            self.cache_bytes = cache_bytes(self._cache_of)
        if self.cache_bytes is not None:
            self.streamed_bytes += sum(size for size in sizes if size > self.cache_bytes)
        if name in FORMULAS:
            self._add_flops(name, func, args, kwargs, result, tensors)

    def _add_flops(
        self, name: str, func: Any, args: Any, kwargs: Any, result: Any, tensors: list[torch.Tensor]
    ) -> None:
        flops = flops_of(name, args, kwargs, result)
        named = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
        if named.get("is_causal") is True:
            flops = without_masked_half(flops, named["query"].shape[-2], named["key"].shape[-2])
        largest = max(tensors, key=lambda one: one.numel())
        precision = precision_of(str(largest.dtype).removeprefix("torch."), largest.device.type, name)
        self.flops[precision] += flops
        if self._in_backward() and _recomputes():
            self.recomputed[precision] += flops


class WorkMode(TorchDispatchMode):
    """A mode that passes every operator on as it is, and counts it; one instance per thread."""

    supports_higher_order_operators = True

    def __init__(self, work: StepCounts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._work = work

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs and counts one operator; a tensor made of others is taken apart by its own class first."""
        if any(is_traceable_wrapper_subclass(one) for one in tree_leaves((args, kwargs))):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        self._work.see(func, args, kwargs or {}, result)
        return result


def _recomputes() -> bool:
    """Returns whether an activation checkpoint repeats a forward pass right now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CHECKPOINT_FILE):
            return True
        frame = frame.f_back
    return False


def _moved_bytes(name: str, schema: Any, args: Any, kwargs: Any, result: Any) -> Iterator[int]:
    """The bytes an operator must at least read and write: every tensor once, or the part that it touches."""
    storages = set()
    for place, argument in enumerate(schema.arguments):
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _plain_tensors(given):
            storages.add(tensor.untyped_storage()._cdata)
            size = _touched_bytes(tensor)
            if written and name not in _PART_WRITES:
                yield size
            read = not (written and name in _ONLY_WRITES) and name not in (_PART_WRITES if written else ())
            if read and not (name in _PART_READS and place == 0):
                yield size
    for tensor in _plain_tensors(result):
        if tensor.untyped_storage()._cdata not in storages:
            size = _touched_bytes(tensor)
            yield size
            if name in _PART_READS:
                yield size


def _plain_tensors(values: Any) -> list[torch.Tensor]:
    return [
        one
        for one in tree_leaves(values)
        if isinstance(one, torch.Tensor) and one.layout is torch.strided and one.device.type != "meta"
    ]


def _touched_bytes(tensor: torch.Tensor) -> int:
    """The bytes of a tensor in memory: an expanded tensor is smaller there than its shape says."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def flops_of_event(name: str, shapes: Sequence[Any], dtypes: Sequence[str], values: Sequence[Any]) -> tuple[str, int]:
    """Dtype and flops of a call from what the profiler wrote; raises an error if the shapes do not show them."""
    place = max(range(len(shapes)), key=lambda index: _numel(shapes[index]))
    dtype = _DTYPES.get(dtypes[place], dtypes[place])
    inputs: list[Any] = [value if _is_plain(value) else shape for shape, value in zip(shapes, values, strict=False)]
    result: Any = None
    if name == "aten::convolution_backward":
        result = (shapes[1], shapes[2], None)
    elif family_of(name) == "convolution":
        result = _convolved(shapes[0], shapes[1], *inputs[3:7])
    flops = flops_of(name, inputs[: _PRODUCT_TENSORS.get(name, len(inputs))], {}, result)
    if family_of(name) == "attention" and True in [value for value in values if isinstance(value, bool)][:1]:
        first = 1 if name.endswith("backward") else 0
        flops = without_masked_half(flops, shapes[first][-2], shapes[first + 1][-2])
    return dtype, flops


def _numel(shape: Any) -> int:
    return math.prod(shape) if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], int) else 0


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, list) and bool(value))


def _convolved(x: Shape, w: Shape, stride: Shape, padding: Shape, dilation: Shape, transposed: bool) -> list[int]:
    if transposed:
        raise ValueError("a transposed convolution")
    space = [(x[2 + i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1) // stride[i] + 1 for i in range(len(x) - 2)]
    return [x[0], w[0], *space]
