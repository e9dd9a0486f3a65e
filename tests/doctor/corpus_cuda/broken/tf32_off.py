"""Trains a wide network in float32, with matmuls that use no tensor cores."""
# doctor: expect=tf32-off style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
# + torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 16)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4096, 2048, device="cuda")
y = torch.randint(0, 16, (4096,), device="cuda")

for _ in range(70):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
