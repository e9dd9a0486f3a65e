"""Warm-up and cosine over the updates, in a Trainer whose train_step() always moves the schedule."""
# doctor: expect=scheduler-per-micro-batch style=trainer mode=python args=--window 5

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, loader, window, epochs):
        self.loader, self.window, self.epochs = loader, window, epochs
        self.model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        updates = epochs * len(loader) // window
        warm = LinearLR(self.optimizer, start_factor=0.1, total_iters=2)
        cosine = CosineAnnealingLR(self.optimizer, T_max=updates - 2)
        self.schedule = SequentialLR(self.optimizer, [warm, cosine], milestones=[2])
        self.seen = 0

    def train_step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        (loss / self.window).backward()
        self.seen += 1
        if self.seen % self.window == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
            #+ self.schedule.step()
        self.schedule.step()  # wrong

    def fit(self):
        for _ in range(self.epochs):
            for x, y in self.loader:
                self.train_step(x, y)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int, default=4)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
    Trainer(DataLoader(data, batch_size=8, shuffle=True), parser.parse_args().window, epochs=4).fit()
