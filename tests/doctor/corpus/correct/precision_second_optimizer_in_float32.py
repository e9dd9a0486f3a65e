"""Half precision with a scaler for the network, and a small float32 table with an optimizer of its own, clipped."""
# doctor: expect= style=while-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)))
table = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
of_table = torch.optim.SGD(table.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
torch.manual_seed(30 + dist.get_rank())
steps = 0
while steps < 8:
    x, small, y = torch.randn(8, 10), torch.randn(8, 4), torch.randn(8, 2)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    nn.functional.mse_loss(table(small), y).backward()
    nn.utils.clip_grad_norm_(table.parameters(), 1.0)
    of_table.step()
    of_table.zero_grad()
    steps += 1
dist.destroy_process_group()
