"""Compiles a model for fixed shapes and feeds it sequences of many lengths."""
# doctor: expect=recompiled-in-loop style=flat mode=python

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
compiled = torch.compile(model, backend="eager", dynamic=False)  # wrong
#+ compiled = torch.compile(model, backend="eager", dynamic=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step in range(30):
    length = 8 + step % 6
    x, y = torch.randn(length, 16), torch.randint(0, 4, (length,))
    loss = nn.functional.cross_entropy(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
