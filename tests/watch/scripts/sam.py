"""Sharpness-aware minimisation: two forward and backward passes on the same batch, one optimizer step."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
held_out_batches = None
for step in range(6):
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    data = TensorDataset(x, y)
    if "evaluates" in sys.argv:
        for number, (held_out, _) in enumerate(DataLoader(data, batch_size=5)):
            if number == 2:
                break
            model.eval()
            model(held_out)
            model.train()
    if "loader" in sys.argv:
        ((x, y),) = DataLoader(data, batch_size=16)
    if "endless" in sys.argv:
        held_out_batches = held_out_batches or iter(DataLoader(data, batch_size=4))
        with torch.no_grad():
            next(held_out_batches, None)
        batches = iter(DataLoader(data, batch_size=16))
        x, y = next(batches)
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
