"""DDP averages, and an old loop from before DDP divides by the ranks once more."""
# doctor: expect=world-size-factor style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self):
        data = TensorDataset(torch.randn(128, 16), torch.randn(128, 2))
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def average_gradients(self):
        size = dist.get_world_size()  # wrong
        for parameter in self.model.parameters():  # wrong
            parameter.grad.div_(size)  # wrong
        #+ return

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.optimizer.zero_grad()
                nn.functional.mse_loss(self.model(x), y).backward()
                self.average_gradients()
                self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    Trainer().fit(2)
    dist.destroy_process_group()
