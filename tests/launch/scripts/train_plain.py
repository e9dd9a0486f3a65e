"""A correct script without a process group."""

import os
import sys

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("plain", sys.argv[1:], "RANK" in os.environ)
