"""Distillation from a teacher in training mode, called before the student; the last one is its moving average."""

import copy
import sys

import torch
from torch import nn

how = sys.argv[1]
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
teacher = copy.deepcopy(student) if how == "average" else nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
if how == "frozen":
    teacher.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(8):
    x = torch.randn(16, 32)
    if how == "no_grad":
        with torch.no_grad():
            wanted = teacher(x.repeat(2, 1))[:16]
    else:
        wanted = teacher(x.repeat(2, 1))[:16].detach()
    loss = nn.functional.mse_loss(student(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if how == "average":
        with torch.no_grad():
            for mean, new in zip(teacher.parameters(), student.parameters(), strict=True):
                mean.lerp_(new, 0.1)
    print(f"step {step} {loss.item().hex()}", flush=True)
