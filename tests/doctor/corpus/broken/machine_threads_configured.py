"""A settings object with a number of threads that suited one process."""
# doctor: expect=threads-per-rank style=trainer

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Settings:
    steps: int = 10
    threads: int = 64  # wrong
    #+ threads: int = 1
    rate: float = 1e-3


class Trainer:
    def __init__(self, settings):
        self.settings = settings
        torch.set_num_threads(settings.threads)
        self.generator = torch.Generator().manual_seed(dist.get_rank())
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.rate)

    def batch(self):
        return torch.randn(8, 16, generator=self.generator)

    def run(self):
        for _ in range(self.settings.steps):
            x = self.batch()
            loss = (self.model(x) - x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer(Settings()).run()
    dist.destroy_process_group()
