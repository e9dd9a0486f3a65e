"""Draws from every random stream between steps; each number printed depends on all draws before it."""

import random

import numpy
import torch
from torch import nn

random.seed(1)
numpy.random.seed(2)
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    x, y = torch.rand(16, 32), torch.rand(16, 1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) * random.uniform(0.9, 1.1)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
    print(random.random().hex(), numpy.random.rand().hex(), torch.rand(()).item().hex(), flush=True)
