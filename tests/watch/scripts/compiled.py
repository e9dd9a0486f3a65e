"""torch.compile where it usually stands: around the model (two backends), in it, around a train function."""

import sys

import torch
from torch import nn

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(16, 32), torch.randn(16, 1)


def one_step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss.detach()


def whole_step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


if how in ("eager", "aot_eager"):
    model = torch.compile(model, backend=how)
elif how == "method":
    model.compile(backend="eager")
elif how == "function":
    one_step = torch.compile(one_step, backend="eager")
elif how == "whole":
    one_step = torch.compile(whole_step, backend="eager")
for step in range(8):
    optimizer.zero_grad()
    loss = one_step(x, y)
    if how != "whole":
        optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
