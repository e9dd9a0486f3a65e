"""A scripted and a traced model; tracing calls the model once before it trains."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model = torch.jit.script(model) if sys.argv[1] == "script" else torch.jit.trace(model, torch.randn(4, 32))
for step in range(8):
    loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
