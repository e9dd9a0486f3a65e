"""Each rank tries another width on purpose: these are trainings of their own, and nobody means to share gradients."""
# doctor: expect= style=search

import os

import torch
from torch import nn


def main():
    width = (16, 64)[int(os.environ["RANK"])]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, width), nn.Tanh(), nn.Linear(width, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(10):
        x = torch.randn(16, 12)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x[:, :2])
        loss.backward()
        optimizer.step()
    print(width, loss.item())


if __name__ == "__main__":
    main()
