"""Adversarial training: the gradient of the input first, then a pass on the altered batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step, (x, y) in enumerate(DataLoader(TensorDataset(torch.randn(128, 32), torch.randn(128, 1)), batch_size=16)):
    x.requires_grad_()
    (slope,) = torch.autograd.grad(nn.functional.mse_loss(model(x), y), [x])
    loss = nn.functional.mse_loss(model((x + 0.01 * slope.sign()).detach()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
