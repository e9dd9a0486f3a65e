"""Half precision with everything in its place: scaler, unscale before the clip, accumulation, skipped steps allowed."""
# doctor: expect= style=trainer

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    accumulate = 2

    def __init__(self):
        torch.manual_seed(0)
        dataset = TensorDataset(torch.randn(128, 16), torch.randint(0, 4, (128,)))
        self.sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, batch_size=8, sampler=self.sampler)
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = GradScaler("cpu", init_scale=2.0**14)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=3)

    def micro_batch(self, x, y, synchronise):
        with nullcontext() if synchronise else self.model.no_sync():
            with autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y) / self.accumulate
            self.scaler.scale(loss).backward()

    def update(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def run(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for i, (x, y) in enumerate(self.loader, start=1):
                ready = i % self.accumulate == 0
                self.micro_batch(x, y, synchronise=ready)
                if ready:
                    self.update()
            self.scheduler.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().run(epochs=3)
    dist.destroy_process_group()
