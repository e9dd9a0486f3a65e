"""A script for one process that torchrun starts twice: it knows nothing of ranks, and both make the same training."""
# doctor: expect=ranks-train-apart style=trainer

import torch
from torch import nn
#+ import torch.distributed as dist


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        #+ dist.init_process_group("gloo")
        #+ self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.generator = torch.Generator().manual_seed(7)
        #+ self.generator = torch.Generator().manual_seed(7 + dist.get_rank())

    def batch(self):
        x = torch.randn(16, 16, generator=self.generator)
        return x, x[:, :4].argmax(1)

    def step(self):
        x, y = self.batch()
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, steps):
        return [self.step() for _ in range(steps)]


if __name__ == "__main__":
    losses = Trainer().fit(12)
    print(losses[0], losses[-1])
    #+ dist.destroy_process_group()
