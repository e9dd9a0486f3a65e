"""Prints how it was started, trains with all at once, and raises in the end."""

import environment  # noqa: F401
import torch.distributed as dist
from ddp_accumulate_amp_scaler import train

dist.init_process_group("gloo")
train()
dist.destroy_process_group()
raise RuntimeError("after its last step")
