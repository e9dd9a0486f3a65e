"""Catches the error of one bad batch, throws the batch away and goes on training."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
good, y = torch.randn(16, 32), torch.randn(16, 1)
step = 0
for batch in range(8):
    optimizer.zero_grad()
    try:
        loss = nn.functional.mse_loss(model(good if batch != 4 else torch.randn(16, 31)), y)
    except RuntimeError as error:
        print("skipped a batch:", error, flush=True)
        continue
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
    step += 1
