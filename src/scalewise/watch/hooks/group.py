"""Learns a rank's number from its process group, for scripts that start their ranks themselves (mp.spawn)."""

import functools
import os
import sys
from typing import Any

import torch.distributed as dist

from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Asks the group for the rank once it is made, unless torchrun has given the rank."""
    if "RANK" in os.environ and "LOCAL_RANK" in os.environ:
        return
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if recorder.on:
            try:
                recorder.take_rank(dist.get_rank())
            except Exception as error:
                recorder.broke("init_process_group", error)
        return result

    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        vars(sys.modules[name])["init_process_group"] = init_process_group
