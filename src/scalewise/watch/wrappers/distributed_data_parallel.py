"""Declares DistributedDataParallel, whose reducer averages gradients in buckets while backward goes on."""

from typing import Any

from scalewise.watch.wrappers import Options, WrapperKind


def _delayed(wrapper: Any) -> Options:
    """The option that DDP keeps only as a list of what is delayed."""
    asked = not getattr(wrapper, "find_unused_parameters", True) and getattr(wrapper, "_delay_all_reduce_params", None)
    return {"delay_all_reduce": True} if asked else {}


KIND = WrapperKind(
    name="DistributedDataParallel",
    classes=("torch.DistributedDataParallel",),
    exchange="reducer",
    made="torch.nn.parallel.DistributedDataParallel",
    synchronises=lambda wrapper: bool(wrapper.require_backward_grad_sync),
    options=(
        "find_unused_parameters", "broadcast_buffers", "static_graph", "gradient_as_bucket_view", "bucket_bytes_cap",
    ),
    more_options=_delayed,
)  # fmt: skip
