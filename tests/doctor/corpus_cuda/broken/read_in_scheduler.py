"""Trains with a learning rate that follows the loss: the scheduler reads the loss from the GPU in every step."""
# doctor: expect=read-every-step style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
layers = [layer for _ in range(24) for layer in (nn.Linear(512, 512), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(512, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=40)
x, y = torch.randn(32768, 512, device="cuda"), torch.randn(32768, 8, device="cuda")

checked = 0
for step in range(90):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(loss.detach())  # wrong
    # + if step % 45 == 44:
    # +     scheduler.step(loss.detach())
    checked += sum(index % 7 for index in range(60_000))  # work of the host: the GPU should be busy meanwhile
print(f"loss {loss.item():.4f}, {checked}")
