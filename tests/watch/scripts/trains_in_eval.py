"""Trains a model that stays in evaluation mode, as for frozen statistics, and evaluates it with gradients between."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1)).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
