"""The short last window of an epoch is applied, but its last micro-batch is still under no_sync()."""
# doctor: expect=never-synchronised also=parameters-diverge style=trainer

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, every=4):
        self.every = every
        data = TensorDataset(torch.randn(224, 10), torch.randn(224, 2))
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        count = len(self.loader)
        for number, (x, y) in enumerate(self.loader, 1):
            steps = number % self.every == 0 or number == count
            in_window = min(self.every, count - (number - 1) // self.every * self.every)
            syncs = number % self.every == 0  # wrong
            #+ syncs = steps
            with contextlib.nullcontext() if syncs else self.model.no_sync():
                loss = nn.functional.mse_loss(self.model(x), y)
                (loss / in_window).backward()
            if steps:
                self.optimizer.step()
                self.optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    trainer = Trainer()
    for epoch in range(3):
        trainer.run_epoch(epoch)
    dist.destroy_process_group()
