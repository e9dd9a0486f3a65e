"""Collects garbage in every step, because memory once ran out."""
# doctor: expect=cache-emptied-in-loop style=flat mode=python

import gc

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step in range(40):
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del x, y
    gc.collect()  # wrong
print(f"loss {loss.item():.4f}")
