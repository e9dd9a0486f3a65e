"""A trainer that wraps every backward pass in detect_anomaly."""
# doctor: expect=debugging-left-on style=trainer mode=python

import contextlib

import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def guard(self):
        return torch.autograd.detect_anomaly()  # wrong
        #+ return contextlib.nullcontext()

    def step(self, x, y):
        with self.guard():
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Trainer(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)))
    losses = [trainer.step(torch.randn(32, 16), torch.randn(32, 1)) for _ in range(30)]
    print(f"mean loss {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    main()
