"""Reads what DDP's reducer knows of itself: its buckets, and how long communication outlasted computation.

`_get_ddp_logging_data` is private to torch, so every use of it is guarded: if it changes, the counts are missing and
the report says so, and a test of ours fails.
"""

import weakref
from typing import Any

from torch import Tensor
from torch.utils.weak import TensorWeakRef

# The reducer times its own passes; with CUDA each such pass makes the host wait, hence the longer stride.
HOST_STRIDE = 16
CUDA_STRIDE = 128


class Reducer:
    """One DDP module's reducer, seen from outside."""

    def __init__(self, ddp: Any) -> None:
        self._ddp = weakref.ref(ddp)
        self.passes = 0  # that reduced
        self._armed = False
        self._before: list[_Seen] = []
        trainable = [parameter for parameter in ddp.module.parameters() if parameter.requires_grad]
        self._witnesses = [weakref.ref(parameter) for parameter in (*trainable[:1], *trainable[-1:])]
        self.communicates = True  # by itself, from C++
        self.buckets, self.bucket_bytes = 0, 0
        on_cuda = any(parameter.is_cuda for parameter in ddp.module.parameters())
        self._stride = CUDA_STRIDE if on_cuda else HOST_STRIDE
        ddp._set_ddp_runtime_logging_sample_rate(self._stride)
        self.read_buckets()

    def arm(self, alone: bool) -> None:
        """Notes that a forward pass has prepared the reducer; several before one backward prepare it once."""
        if not self._armed:
            self._armed, self._before = True, [] if alone else [_Seen(one) for one in self._gradients()]

    def has_reduced(self, alone: bool) -> bool:
        """Returns whether a backward pass was this reducer's; if it is the only one, its gradients are not compared."""
        if not self._armed or not (alone or self._has_new_gradients()):
            return False
        self._armed = False
        self.passes += 1
        return True

    def _has_new_gradients(self) -> bool:
        """Returns whether a backward pass has reached the module's first or last parameter."""
        gradients = self._gradients()
        return len(gradients) != len(self._before) or any(
            not before.is_still(one) for before, one in zip(self._before, gradients, strict=True)
        )

    def _gradients(self) -> list[Tensor | None]:
        return [parameter.grad for witness in self._witnesses if (parameter := witness()) is not None]

    def wants_reading(self) -> bool:
        """Returns whether to read: after the first passes (buckets are rebuilt once) and each pass that was timed."""
        return self.passes in (2, 3, 9) or self.passes % self._stride == 1

    def read_buckets(self) -> dict[str, Any]:
        """Reads the buckets in use; returns all that the reducer reports."""
        ddp = self._ddp()
        if ddp is None:
            return {}
        said: dict[str, Any] = dict(ddp._get_ddp_logging_data())
        sizes = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or ""
        numbers = [int(part) for part in str(sizes).replace(",", " ").split()]
        self.buckets, self.bucket_bytes = len(numbers), sum(numbers)
        return said

    def read_exposed(self) -> tuple[int, int] | None:
        """Exposed and whole communication of the last pass the reducer timed, in ns; None if there was none."""
        said = self.read_buckets()
        communication_ns = int(said.get("backward_comm_time", 0))
        overlap_ns = int(said.get("backward_compute_comm_overlap_time", 0))
        if communication_ns <= 0:
            return None
        return max(0, communication_ns - overlap_ns), communication_ns


class _Seen:
    """A gradient as it was: its address alone does not tell it from a later one at the same place."""

    __slots__ = ("_reference", "_version")

    def __init__(self, gradient: Tensor | None) -> None:
        self._reference = None if gradient is None else TensorWeakRef(gradient)
        self._version = None if gradient is None else gradient._version

    def is_still(self, gradient: Tensor | None) -> bool:
        """Returns whether it is the same tensor, and nothing was written to it since."""
        if gradient is None or self._reference is None:
            return gradient is None and self._reference is None
        return self._reference() is gradient and gradient._version == self._version
