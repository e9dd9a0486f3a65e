"""Trains a compiled model on sequences of many lengths, each of which is compiled anew."""
# doctor: expect=recompiled-in-loop style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(512, 8)).cuda()
compiled = torch.compile(model, dynamic=False, backend="aot_eager")  # wrong
# + compiled = torch.compile(model, dynamic=True, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

for step in range(70):
    length = 32768 + 64 * (step % 7)
    x, y = torch.randn(length, 512, device="cuda"), torch.randn(length, 8, device="cuda")
    loss = nn.functional.mse_loss(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
