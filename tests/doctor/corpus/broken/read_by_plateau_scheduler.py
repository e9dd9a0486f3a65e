"""Hands the loss to a scheduler in every step, which turns it into a number."""
# doctor: expect=read-every-step style=flat mode=python on=cpu

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=100)

for step in range(20):
    x, y = torch.randn(8, 16, device="cuda"), torch.randint(0, 4, (8,), device="cuda")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    #+ if step % 10 == 9:
    #+     scheduler.step(loss.detach())
    scheduler.step(loss.detach())  # wrong
