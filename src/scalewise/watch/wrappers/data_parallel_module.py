"""Declares nn.DataParallel, which copies the model to the devices of one process in every step."""

from scalewise.watch.wrappers import WrapperKind

KIND = WrapperKind(
    name="DataParallel",
    classes=("torch.DataParallel",),
    exchange="replicas",
    made="torch.nn.DataParallel",
    more_options=lambda wrapper: {"devices": len(wrapper.device_ids)},
)
