"""Sharpness-aware minimisation: two forward and backward passes on the same batch, one optimizer step."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    if sys.argv[1:] == ["loader"]:
        ((x, y),) = DataLoader(TensorDataset(x, y), batch_size=16)
    first = nn.functional.mse_loss(model(x), y)
    first.backward()
    nudges = [0.01 * p.grad for p in model.parameters()]
    with torch.no_grad():
        for parameter, nudge in zip(model.parameters(), nudges, strict=True):
            parameter.add_(nudge)
    optimizer.zero_grad()
    second = nn.functional.mse_loss(model(x), y)
    second.backward()
    with torch.no_grad():
        for parameter, nudge in zip(model.parameters(), nudges, strict=True):
            parameter.sub_(nudge)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {(first.item() + second.item()).hex()}", flush=True)
