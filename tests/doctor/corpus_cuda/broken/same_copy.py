"""Trains with a table of positions that lies on the host and is copied to the GPU in every step."""
# doctor: expect=same-copy-every-step style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
positions = torch.randn(8192, 1024)  # wrong
# + positions = torch.randn(8192, 1024).to(device)
x, y = torch.randn(8192, 1024, device=device), torch.randn(8192, 1024, device=device)

for _ in range(70):
    loss = nn.functional.mse_loss(model(x + positions.to(device)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
