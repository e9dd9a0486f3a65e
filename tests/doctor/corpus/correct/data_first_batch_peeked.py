"""The shape of a batch is looked at first; the test loader shuffles and is never told an epoch."""
# doctor: expect= style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, train_set, test_set):
        self.sampler = DistributedSampler(train_set)
        self.train_loader = DataLoader(train_set, batch_size=8, sampler=self.sampler)
        self.test_loader = DataLoader(test_set, batch_size=8, sampler=DistributedSampler(test_set, shuffle=True))
        example, _ = next(iter(self.train_loader))
        self.model = DistributedDataParallel(nn.Linear(example.shape[1], 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            self.model.train()
            for x, y in self.train_loader:
                self.optimizer.zero_grad()
                nn.functional.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
            self.test()

    @torch.inference_mode()
    def test(self):
        self.model.eval()
        total = torch.zeros(1)
        for x, y in self.test_loader:
            total += nn.functional.mse_loss(self.model.module(x), y)
        dist.all_reduce(total)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    Trainer(TensorDataset(torch.randn(64, 7), torch.randn(64, 1)), TensorDataset(torch.randn(32, 7), torch.randn(32, 1))).run(3)
    dist.destroy_process_group()
