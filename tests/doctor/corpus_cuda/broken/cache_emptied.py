"""Trains, and gives the GPU's memory back after every step for fear of running out of it."""
# doctor: expect=cache-emptied-in-loop style=flat mode=python threads=auto

import gc

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 16)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(8192, 1024, device="cuda")
y = torch.randint(0, 16, (8192,), device="cuda")

for _ in range(70):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gc.collect()  # wrong
    torch.cuda.empty_cache()  # wrong
print(f"loss {loss.item():.4f}")
