"""Trains a deep, narrow network; the optimizer updates one parameter after the other."""
# doctor: expect=launch-bound style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
device = torch.device("cuda")
layers = [layer for _ in range(48) for layer in (nn.Linear(256, 256), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(256, 8)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)  # wrong
# + optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(49152, 256, device=device)
y = torch.randn(49152, 8, device=device)

for _ in range(80):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
