"""Collects garbage between epochs, and looks for anomalies in the first steps only."""
# doctor: expect= style=flat mode=python

import gc

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(3):
    for step in range(12):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        with torch.autograd.set_detect_anomaly(epoch == 0 and step < 3):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    gc.collect()
    torch.cuda.empty_cache()
