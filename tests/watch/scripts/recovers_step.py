"""Catches what an optimizer's step raises, by itself or under a GradScaler, and goes on training."""

import sys

import torch
from torch import nn


class Moody(torch.optim.SGD):
    """Raises at its fourth step."""

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        if self.steps == 4:
            raise ValueError("not now")
        return super().step(closure)


def new_scaler():
    return torch.amp.GradScaler("cpu", enabled="scaled" in sys.argv, init_scale=1024.0)


torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = Moody(model.parameters(), lr=0.05)
scaler = new_scaler()
x, y = torch.randn(16, 32), torch.randn(16, 1)
step = 0
for _ in range(9):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    try:
        scaler.step(optimizer) if "scaled" in sys.argv else optimizer.step()
    except ValueError as error:
        print("skipped a step:", error, flush=True)
        scaler = new_scaler()
        continue
    scaler.update()
    print(f"step {step} {loss.item().hex()}", flush=True)
    step += 1
