"""A regression toy turned classifier: one output, and a cross entropy over it."""
# doctor: expect=gradients-all-zero style=trainer

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, loader, optimizer):
        self.model, self.loader, self.optimizer = DDP(model), loader, optimizer

    def train(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            for source, targets in self.loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(source), targets)  # wrong
                #+ loss = F.mse_loss(self.model(source), targets)
                loss.backward()
                self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.rand(128, 20), torch.rand(128, 1))
    model = torch.nn.Linear(20, 1)
    loader = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-3)).train(3)
    dist.destroy_process_group()
