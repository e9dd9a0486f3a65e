"""Trains a tower of convolutions on pictures of one size and leaves the choice of algorithms to a guess."""
# doctor: expect=convolutions-not-tuned style=function mode=python threads=auto

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    # + torch.backends.cudnn.benchmark = True
    model = nn.Sequential(
        nn.Conv2d(16, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 4, 1)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(16, 16, 200, 200, device="cuda"), torch.randn(16, 4, 200, 200, device="cuda")
    for _ in range(70):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
