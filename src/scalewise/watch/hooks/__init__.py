"""Times the parts of a step: one file per part of torch, each with an `install` that wraps what it must see.

Every wrapper passes its arguments and results through untouched, and a failure of ours inside it is noted, not raised.
No hook issues a collective, uses a random number or waits for a device inside the timed region.
"""

from collections.abc import Callable, Collection

import torch

from scalewise.watch.hooks import amp, backward, compiler, data, forward, memory, optimizer, transforms
from scalewise.watch.probe_torch import TorchProbe, describe_rank
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, local_rank: int, without: Collection[str] = ()) -> None:
    """Hooks into torch, once per process; `without` names what has failed in this script before."""
    probe = TorchProbe(recorder)
    recorder.probe = probe
    recorder.describe = lambda: describe_rank(recorder, local_rank)
    installs: dict[str, Callable[[], None]] = {
        "forward": lambda: forward.install(recorder, probe),
        "transforms": lambda: transforms.install(recorder),
        "backward": lambda: backward.install(recorder),
        "optimizer": lambda: optimizer.install(recorder, probe),
        "amp": lambda: amp.install(recorder, probe),
        "data": lambda: data.install(recorder),
        "memory": lambda: memory.install(recorder, probe),
    }
    if torch.distributed.is_available():
        from scalewise.watch.hooks import collectives, ddp, group  # absent from builds without distributed

        installs["group"] = lambda: group.install(recorder)
        installs["collectives"] = lambda: collectives.install(recorder)
        installs["ddp"] = lambda: ddp.install(recorder, probe)
    installs["compiler"] = lambda: compiler.install(recorder)
    for name, install_one in installs.items():
        if f"hooks/{name}" not in without:
            install_one()
