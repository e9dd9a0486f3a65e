"""Computes attention that a script computes step by step by `scaled_dot_product_attention`, with all kernels allowed.

Attention written by hand: a product of queries and keys is not computed until it is known what is done with it. If
scale, mask, softmax, dropout and the product with the values follow, one fused call does it all; anything else computes
the product first. `nn.MultiheadAttention` is asked for no weights. A script that reads scores or weights gets what it
would have got.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam, seams

NAME = "fused_attention"
CHANGE = Declared()
LEAST_SCORES = 1 << 16  # smaller products are left alone
LEAST_LENGTH = 32
MOST_WIDTH = 256  # of a head, for which there are fused kernels
MASKED = -1e4  # a score below it is masked out, whatever number stands for minus infinity
_Tensor: Any = torch.Tensor


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps products where they are called; what follows is seen by the deferred tensor itself."""

    def applied() -> None:
        recorder.intervene(NAME)

    Deferred.applied = staticmethod(applied)
    for owner, names in ((torch, ("matmul", "bmm")), (_Tensor, ("matmul", "bmm", "__matmul__"))):
        for products in seams(owner, names).values():
            products.around(_product)
    _want_no_weights(applied)

    def enable(call: Any, enabled: bool) -> None:
        if not enabled:
            applied()

    cuda = torch.backends.cuda
    for switch in seams(cuda, (f"enable_{one}_sdp" for one in ("flash", "mem_efficient", "math", "cudnn"))).values():
        switch.original(True)
        switch.around(enable)


def _want_no_weights(applied: Any) -> None:

    def forward(call: Any, self: Any, query: Any, key: Any, value: Any, key_padding_mask: Any = None,
                need_weights: bool = True, *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        if need_weights:
            applied()
        return call(self, query, key, value, key_padding_mask, False, *args, **kwargs)

    seam(nn.MultiheadAttention, "forward").around(forward)


def _product(call: Any, /, *args: Any, **kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or any(type(one) is not torch.Tensor for one in args):
        return call(*args, **kwargs)
    return Deferred.of(Recipe(*args)) if _may_be_scores(*args) else call(*args, **kwargs)


def _may_be_scores(queries: torch.Tensor, keys: torch.Tensor) -> bool:
    if queries.dim() not in (3, 4) or keys.dim() != queries.dim() or not queries.is_cuda:
        return False
    length, width = queries.shape[-2:]
    others = keys.shape[-1]
    if queries.shape[:-2] != keys.shape[:-2] or width > MOST_WIDTH or min(length, others) < LEAST_LENGTH:
        return False
    return math.prod(queries.shape[:-1]) * others >= LEAST_SCORES and torch.is_grad_enabled()


@dataclass(frozen=True)
class Recipe:
    """The steps that compute a deferred product."""

    queries: torch.Tensor
    keys: torch.Tensor  # transposed, as they were given
    scale: float = 1.0
    mask: torch.Tensor | None = None  # true where a score counts
    softmax: bool = False
    dropout: float = 0.0

    def computed(self) -> torch.Tensor:
        """The tensor that the script's own steps would have given."""
        scores = _plainly(torch.matmul, self.queries, self.keys) * self.scale
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, -math.inf)
        if self.softmax:
            scores = torch.softmax(scores, dim=-1)
        return nn.functional.dropout(scores, self.dropout) if self.dropout else scores

    def fused(self, values: torch.Tensor) -> torch.Tensor:
        """The whole of attention in one call."""
        causal = self.mask is not None and _is_causal(self.mask)
        attend = nn.functional.scaled_dot_product_attention
        keys = self.keys.transpose(-2, -1)
        mask = None if causal else self.mask
        options: dict[str, Any] = {"dropout_p": self.dropout, "is_causal": causal, "scale": self.scale}
        return attend(self.queries, keys, values, attn_mask=mask, **options)


_causal: dict[tuple[Any, ...], bool] = {}
_HERE = (__file__.rpartition("/changes/")[0], torch.__path__[0])


def _is_causal(mask: torch.Tensor) -> bool:
    """Returns whether a mask lets every position see itself and earlier ones; read once for each line and shape.

    Reading it every time would make the host wait for the GPU, which no fix does.
    """
    shape = tuple(mask.shape)
    key = (*_line(), *shape)
    if key not in _causal:
        length, others = shape[-2:]
        lower = torch.ones(length, others, dtype=torch.bool, device=mask.device).tril()
        _causal[key] = length == others and bool((mask == lower).all())
    return _causal[key]


def _line() -> tuple[str, int]:
    """The script's line that computes attention: that of the first frame outside scalewise and torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


class Deferred(torch.Tensor):
    """A product of queries and keys that is not computed yet: it has a shape and a type, and no memory."""

    recipe: Recipe
    applied: Any = None

    @classmethod
    def of(cls, recipe: Recipe, dtype: torch.dtype | None = None) -> "Deferred":
        """Makes a deferred tensor with the shape of the scores."""
        shape = (*recipe.queries.shape[:-1], recipe.keys.shape[-1])
        kind = dtype or recipe.queries.dtype
        made: Deferred = _Tensor._make_wrapper_subclass(cls, shape, dtype=kind, device=recipe.queries.device)
        made.recipe = recipe
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Goes on deferring while what is asked for is part of attention, else computes first."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" or name in ("size", "dim", "numel", "is_floating_point", "ndimension", "stride"):
            return _plainly(func, *args, **kwargs)
        first = args[0] if args else None
        if isinstance(first, Deferred) and name.endswith("_") and not name.endswith("__"):
            return _in_place(first, name, args[1:], kwargs)
        step = _STEPS.get(name.strip("_"))
        if isinstance(first, Deferred) and step is not None:
            result = step(first, *args[1:], **kwargs)
            if result is not None:
                return result
        args, kwargs = tree_map(_computed, (args, kwargs))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Refuses operations that did not come through `__torch_function__`: their gradients would be lost."""
        raise NotImplementedError(f"scores were put off and {func} asks for them")


def _in_place(scores: Deferred, name: str, args: Any, kwargs: Any) -> Deferred:
    """Changes scores in place, as in `scores.masked_fill_(...)`: everyone who holds the scores must see the change."""
    step = _STEPS.get(name[:-1])
    changed = step(scores, *args, **kwargs) if step is not None else None
    if not isinstance(changed, Deferred):
        raise NotImplementedError(f"scores were put off and {name} would change them")
    scores.recipe = changed.recipe
    return scores


def _plainly(func: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return getattr(func, "__wrapped__", func)(*args, **kwargs)


def _computed(value: Any) -> Any:
    return value.recipe.computed() if isinstance(value, Deferred) else value


# The steps that may be done to scores on the way; each returns None for what it does not know.


def _scaled(scores: Deferred, factor: Any, *args: Any, **kwargs: Any) -> Deferred | None:
    if args or kwargs or not isinstance(factor, (int, float)) or scores.recipe.softmax:
        return None
    return Deferred.of(replace(scores.recipe, scale=scores.recipe.scale * factor), scores.dtype)


def _divided(scores: Deferred, by: Any, *args: Any, **kwargs: Any) -> Deferred | None:
    return _scaled(scores, 1 / by, *args, **kwargs) if isinstance(by, (int, float)) and by else None


def _masked(scores: Deferred, mask: Any = None, value: Any = None) -> Deferred | None:
    recipe = scores.recipe
    below = isinstance(value, (int, float)) and value <= MASKED
    if not below or recipe.softmax or recipe.mask is not None or not isinstance(mask, torch.Tensor):
        return None
    return Deferred.of(replace(recipe, mask=~mask), scores.dtype)


def _softmax(scores: Deferred, dim: Any = None, *args: Any, **kwargs: Any) -> Deferred | None:
    if dim not in (-1, scores.dim() - 1) or scores.recipe.softmax:
        return None
    return Deferred.of(replace(scores.recipe, softmax=True), kwargs.get("dtype"))


def _dropped(weights: Deferred, p: float = 0.5, training: bool = True, *args: Any, **kwargs: Any) -> Deferred | None:
    if not weights.recipe.softmax or weights.recipe.dropout or kwargs.get("inplace") or any(args):
        return None
    return Deferred.of(replace(weights.recipe, dropout=p if training else 0.0), weights.dtype)


def _cast(weights: Deferred, target: Any = None, **kwargs: Any) -> Deferred | None:
    """Sets the type of the scores; their type between two steps makes no difference to a fused kernel."""
    wanted = target.dtype if isinstance(target, torch.Tensor) else kwargs.get("dtype", target)
    return Deferred.of(weights.recipe, wanted) if isinstance(wanted, torch.dtype) else None


def _weighed(weights: Deferred, values: Any) -> torch.Tensor | None:
    if not weights.recipe.softmax or not isinstance(values, torch.Tensor) or isinstance(values, Deferred):
        return None
    Deferred.applied()
    return weights.recipe.fused(values)


_STEPS: dict[str, Any] = {
    "mul": _scaled, "rmul": _scaled, "multiply": _scaled,
    "div": _divided, "truediv": _divided, "true_divide": _divided,
    "masked_fill": _masked, "softmax": _softmax, "dropout": _dropped, "to": _cast, "type_as": _cast,
    "matmul": _weighed, "bmm": _weighed,
}  # fmt: skip
