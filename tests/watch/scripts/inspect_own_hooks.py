"""A script that itself uses what an inspection uses: hooks on saved tensors, a dispatch mode, torch.func, in place."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(8, 16), torch.randn(8, 1)
    counter = FlopCounterMode(display=False)
    if step % 2:
        with counter, torch.autograd.graph.save_on_cpu():
            loss = nn.functional.mse_loss(model(x), y)
    else:
        output = model(x)
        slope = torch.func.grad(lambda one: (one * one).sum())(output.detach())
        with counter, torch.autograd.graph.save_on_cpu():
            loss = nn.functional.mse_loss(output, y) + slope.mean() * 0
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {loss.item().hex()} {counter.get_total_flops()}", flush=True)
