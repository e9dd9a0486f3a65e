"""A trainer that divides the masked sum by this rank's own mask, in windows of two micro-batches."""
# doctor: expect=mean-of-rank-means style=trainer

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, seed):
        torch.manual_seed(0)
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(seed)
        self.longest = 6 + 12 * dist.get_rank()

    def batch(self):
        signals = torch.randn(4, 20, 6, generator=self.generator)
        lengths = torch.randint(3, self.longest, (4, 1), generator=self.generator)
        return signals, signals.sum(-1), (torch.arange(20) < lengths).float()

    def step(self):
        window = [self.batch() for _ in range(2)]
        counted = sum(mask.sum() for _, _, mask in window)
        #+ dist.all_reduce(counted)
        #+ counted /= dist.get_world_size()
        for index, (signals, wanted, mask) in enumerate(window):
            with nullcontext() if index else self.model.no_sync():
                errors = (self.model(signals).squeeze(-1) - wanted).square()
                ((errors * mask).sum() / counted).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    trainer = Trainer(7 + dist.get_rank())
    for _ in range(8):
        trainer.step()
    dist.destroy_process_group()
