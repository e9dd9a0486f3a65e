"""Raises in the middle of step 3, between backward and the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    if step == 3:
        raise RuntimeError("step 3 goes wrong")
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
