"""LBFGS: the optimizer itself calls a closure that runs forward and backward several times."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
x, y = torch.randn(16, 32), torch.randn(16, 1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(6):
    loss = optimizer.step(closure)
    print(f"loss {step} {loss.item().hex()}", flush=True)
