"""Mixed precision with float16 and loss scaling; one loss is infinite, so one step is skipped."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(8):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    if step == 3:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    print(f"step {step} {loss.item().hex()}", "scale", scaler.get_scale(), flush=True)
    scaler.update()
