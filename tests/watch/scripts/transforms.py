"""Modules that are no part of a step: transforms and a collate function in the loader, augmentation in the loop."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

how = sys.argv[1]


class Jitter(nn.Module):
    """As torchvision's transforms are: a module in training mode, without parameters."""

    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


class Rows(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(128, 32), torch.randn(128, 1)
        self.transform = nn.Sequential(Jitter(), Jitter())

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.transform(self.x[index]) if how == "dataset" else self.x[index], self.y[index]


def collate(rows):
    x, y = torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])
    return embed(x).detach() if how == "collate" else x, y


def batches():
    for x, y in zip(torch.randn(8, 16, 32), torch.randn(8, 16, 1), strict=True):
        yield augment(x), y


torch.manual_seed(0)
augment = Jitter()
embed = nn.Linear(32, 32)  # with parameters that nobody trains
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
source = batches() if how == "generator" else DataLoader(Rows(), batch_size=16, collate_fn=collate)
for step, (x, y) in enumerate(source):
    if how == "loop":
        x = augment(x)
    loss = nn.MSELoss()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
