"""Declares FullyShardedDataParallel, the first FSDP: a module around the model, which keeps flat shards."""

from scalewise.watch.wrappers import WrapperKind

KIND = WrapperKind(
    name="FSDP",
    classes=("torch.FullyShardedDataParallel",),
    exchange="shards",
    synchronises=lambda wrapper: bool(getattr(wrapper, "_sync_gradients", True)),
)
