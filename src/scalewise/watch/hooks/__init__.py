"""Where the watcher touches torch: one file per part of torch, each with an `install` that wraps what it must see.

Every wrapper passes its arguments and results through untouched, and a failure of ours inside it is noted, not raised.
No hook issues a collective, uses a random number or waits for a device inside the timed region.
"""

import torch

from scalewise.watch.hooks import amp, backward, compiler, data, forward, optimizer
from scalewise.watch.probe_torch import TorchProbe, describe_rank
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, local_rank: int) -> None:
    """Hooks into torch, once per process."""
    probe = TorchProbe(recorder)
    recorder.probe = probe
    recorder.describe = lambda: describe_rank(recorder, local_rank)
    forward.install(recorder, probe)
    backward.install(recorder)
    optimizer.install(recorder, probe)
    amp.install(recorder, probe)
    data.install(recorder)
    if torch.distributed.is_available():
        from scalewise.watch.hooks import collectives, ddp, group  # absent from builds without distributed

        group.install(recorder)
        collectives.install(recorder)
        ddp.install(recorder, probe)
    compiler.install(recorder)
