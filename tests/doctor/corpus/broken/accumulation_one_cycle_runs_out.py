"""OneCycleLR made for the updates and stepped with every micro-batch: it refuses in the middle of the training."""
# doctor: expect=scheduler-per-micro-batch style=function-per-epoch mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run_epoch(model, loader, optimizer, scheduler, accumulate):
    for number, (x, y) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(x), y) / accumulate
        loss.backward()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            #+ scheduler.step()
        scheduler.step()  # wrong


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(192, 12), torch.randint(0, 3, (192,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=4 * len(loader) // 3)
    for _ in range(4):
        run_epoch(model, loader, optimizer, scheduler, accumulate=3)
