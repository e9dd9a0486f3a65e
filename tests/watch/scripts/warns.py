"""Warns at its own lines through functions that the watcher wraps, at the end of the stack, and once per line."""

import os
import sys
import warnings
from warnings import warn

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, StepLR
from torch.utils.data import DataLoader, TensorDataset


class Warns(nn.Linear):
    def forward(self, x):
        if not sys.argv[1:]:
            warnings.warn("the caller of the model's forward", stacklevel=4)
        return super().forward(x)


class WarnsInSample(TensorDataset):
    def __getitem__(self, index):
        warn("who fetches a sample", UserWarning, 4)
        return super().__getitem__(index)


def deprecated():
    warnings.warn("deprecated", FutureWarning, stacklevel=2)


warnings.simplefilter("default")
torch.manual_seed(0)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = Warns(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plain, restarts = StepLR(optimizer, 2), CosineAnnealingWarmRestarts(optimizer, 2)
deprecated()
deprecated()
if torch.distributed.is_initialized():
    model = DistributedDataParallel(model, broadcast_buffers=False, check_reduction=True)
for step, (x,) in enumerate(DataLoader(WarnsInSample(torch.randn(16, 4)), batch_size=4)):
    optimizer.zero_grad()
    model(x).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    plain.step(step)
    plain.step(step)
    optimizer.step()
    restarts.step()
print(f"lr {optimizer.param_groups[0]['lr']:.6f}")
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
