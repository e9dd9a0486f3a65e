"""A script that calls torch wrongly, all by itself: through the watcher this must look as it does without."""

import sys
import time

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
if sys.argv[1] == "arguments":
    torch.autograd.grad(model(torch.ones(2, 4)).sum())
elif sys.argv[1] == "clock":
    time.time("now")
elif sys.argv[1] == "value":
    torch.autograd.backward(tensors=model(torch.ones(2, 4)))
