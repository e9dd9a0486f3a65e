"""The optimizer is given the parameters of a model that is copied afterwards."""
# doctor: expect=gradients-all-zero style=script mode=python

import copy

import torch
from torch import nn

torch.manual_seed(0)
template = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(template.parameters(), lr=1e-2)  # wrong
model = copy.deepcopy(template)
#+ optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(12):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    model.zero_grad()
