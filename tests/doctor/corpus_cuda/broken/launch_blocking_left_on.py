"""Trains with CUDA_LAUNCH_BLOCKING, which the script sets in its first line since the last illegal memory access."""
# doctor: expect=debugging-left-on style=flat mode=python threads=auto

import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # wrong
# + os.environ.pop("CUDA_LAUNCH_BLOCKING", None)

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
layers = [layer for _ in range(24) for layer in (nn.Linear(512, 512), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(512, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x, y = torch.randn(32768, 512, device="cuda"), torch.randn(32768, 8, device="cuda")

for _ in range(70):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
