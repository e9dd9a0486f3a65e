"""Gradients by torch.autograd.grad: set by hand for the optimizer, or only as a penalty inside the loss."""

import sys

import torch
from torch import nn

SPELLINGS = {
    "penalty": lambda out, x: torch.autograd.grad(out, x, create_graph=True),
    "penalty_by_name": lambda out, x: torch.autograd.grad(outputs=out, inputs=x, create_graph=True),
    "penalty_by_place": lambda out, x: torch.autograd.grad(out, x, None, None, True),
}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(16, 32, requires_grad=True), torch.randn(16, 1)
    out = model(x)
    loss = nn.functional.mse_loss(out, y)
    if sys.argv[1] != "manual":
        (slope,) = SPELLINGS[sys.argv[1]](out.sum(), x)
        loss = loss + 0.1 * slope.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
    else:
        for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=True):
            parameter.grad = gradient
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
