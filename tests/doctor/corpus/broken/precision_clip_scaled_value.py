"""A trainer with accumulation that clips values, and unscales afterwards, when it is too late."""
# doctor: expect=clip-before-unscale style=trainer

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, loader, accumulate=2):
        self.loader, self.accumulate = loader, accumulate
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 36), nn.SiLU(), nn.Linear(36, 3)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)

    def backward(self, batch, last):
        x, y = batch
        with nullcontext() if last else self.model.no_sync():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y) / self.accumulate
            self.scaler.scale(loss).backward()

    def apply(self):
        torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.5)  # wrong
        self.scaler.unscale_(self.optimizer)
        #+ torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def fit(self):
        self.loader.sampler.set_epoch(0)
        for index, batch in enumerate(self.loader):
            last = index % self.accumulate == self.accumulate - 1
            self.backward(batch, last)
            if last:
                self.apply()


dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(192, 12), torch.randn(192, 3))
Trainer(DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))).fit()
dist.destroy_process_group()
