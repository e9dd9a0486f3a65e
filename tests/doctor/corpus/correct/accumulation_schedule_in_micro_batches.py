"""A cosine whose length is counted in micro-batches on purpose: it ends with the training."""
# doctor: expect= style=function-per-epoch mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def epoch_of(model, loader, optimizer, scheduler, window):
    for number, (x, y) in enumerate(loader, 1):
        (nn.functional.mse_loss(model(x), y) / window).backward()
        if number % window == 0:
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3 * len(loader))
    for _ in range(3):
        epoch_of(model, loader, optimizer, scheduler, window=4)
