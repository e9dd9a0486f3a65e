"""One function for both, as trainers have: training or not is told by gradients alone."""
# doctor: expect=evaluation-in-training-mode style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, train_set, test_set):
        self.sampler = DistributedSampler(train_set)
        self.train_loader = DataLoader(train_set, batch_size=16, sampler=self.sampler)
        test_sampler = DistributedSampler(test_set, shuffle=False)
        self.test_loader = DataLoader(test_set, batch_size=10, sampler=test_sampler)
        self.model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def run_batch(self, x, y, train):
        with torch.set_grad_enabled(train):
            loss = nn.functional.cross_entropy(self.model(x), y)
        if train:
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def run_epoch(self, loader, train):
        #+ self.model.train(train)
        return [self.run_batch(x, y, train) for x, y in loader]

    def train(self):
        for epoch in range(3):
            self.sampler.set_epoch(epoch)
            self.run_epoch(self.train_loader, train=True)
            self.run_epoch(self.test_loader, train=False)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    x = torch.randn(240, 10)
    y = (x.sum(1) > 0).long()
    Trainer(TensorDataset(x[:160], y[:160]), TensorDataset(x[160:], y[160:])).train()
    dist.destroy_process_group()
