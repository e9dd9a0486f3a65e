"""Leaves with exit code 3 at step 3."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    if step == 3:
        sys.exit(3)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
