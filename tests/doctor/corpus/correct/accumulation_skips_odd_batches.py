"""Throws a window's gradients away when a loss is far off, and goes on: rare, and meant so."""
# doctor: expect= style=trainer mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CarefulTrainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.usual, self.waiting = None, 0

    def feed(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        (0.25 * loss).backward()
        self.waiting += 1
        value = loss.item()
        if self.usual is not None and value > 4 * self.usual:
            self.optimizer.zero_grad()
            self.waiting = 0
            return
        self.usual = value if self.usual is None else 0.9 * self.usual + 0.1 * value
        if self.waiting == 4:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.waiting = 0


if __name__ == "__main__":
    torch.manual_seed(0)
    features, target = torch.randn(480, 8), torch.randn(480, 1)
    target[::97] *= 40
    trainer = CarefulTrainer(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    batches = iter(DataLoader(TensorDataset(features, target), batch_size=8))
    for x, y in batches:
        trainer.feed(x, y)
    if trainer.waiting:
        trainer.optimizer.step()
