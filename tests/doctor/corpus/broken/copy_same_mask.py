"""Copies a mask to the GPU in every step."""
# doctor: expect=same-copy-every-step style=flat mode=python on=cpu

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(256, 256).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mask = torch.tril(torch.ones(256, 256))  # wrong
#+ mask = torch.tril(torch.ones(256, 256)).to(device)

for step in range(20):
    x = torch.randn(256, 256, device=device)
    loss = (model(x) * mask.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
