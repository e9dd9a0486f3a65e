"""Trains a deep network with anomaly detection switched on at the top, long after the NaN was found."""
# doctor: expect=debugging-left-on style=flat mode=python

import torch
from torch import nn

torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)  # wrong
model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(32, 32), nn.Tanh())], nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for _ in range(40):
    x, y = torch.randn(16, 32), torch.randint(0, 4, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
