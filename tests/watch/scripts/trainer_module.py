"""A trainer that is a module itself: its forward pass is the whole training."""

import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.steps = steps

    def forward(self):
        for step in range(self.steps):
            x, y = torch.randn(16, 32), torch.randn(16, 1)
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            print(f"step {step} {loss.item().hex()}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(8)()
