"""Copies to the GPU in every step what is new each time, and a mask of a few bytes."""
# doctor: expect= style=flat mode=python on=cpu

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(64, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
buffer = torch.zeros(512, 64)  # filled anew for every step
mask = torch.tril(torch.ones(8, 8))

for step in range(20):
    buffer.normal_()
    out = model(buffer.to(device)).view(64, 8, 8)
    loss = (out * mask.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
