"""Evaluation between steps: without gradients, in eval mode with them, or with neither; none of it is training."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(16, 32), torch.randn(16, 1)
held_out = torch.randn(64, 32)
careless = sys.argv[1:] == ["careless"]
for step in range(24 if careless else 8):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
    if careless and step % 5 == 4:
        for _ in range(3):
            print("in training mode with gradients", model(held_out).sum().item().hex(), flush=True)
    elif step % 2 and not careless:
        model.eval()
        with torch.no_grad():
            print("without gradients", model(held_out).sum().item().hex(), flush=True)
        for _ in range(3):
            print("in eval mode", model(held_out).sum().item().hex(), flush=True)
