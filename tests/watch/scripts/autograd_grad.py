"""Gradients by torch.autograd.grad: set by hand for the optimizer, or only as a penalty inside the loss."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(16, 32, requires_grad=True), torch.randn(16, 1)
    out = model(x)
    loss = nn.functional.mse_loss(out, y)
    if sys.argv[1] == "penalty":
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = loss + 0.1 * slope.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
    else:
        for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=True):
            parameter.grad = gradient
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
