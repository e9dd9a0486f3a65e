"""The wrapper stays in evaluation mode, the model in it trains, and the optimizer calls a closure, as in Lightning."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 32), torch.randn(16, 1)

model.eval()
with torch.no_grad():
    model(x)
model.module.train()


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(6):
    loss = optimizer.step(closure)
    print(f"loss {step} {loss.item().hex()}", flush=True)
dist.destroy_process_group()
