"""A model that torch.jit has compiled, with BatchNorm and dropout, evaluated as it should be."""
# doctor: expect= style=script

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
model = nn.parallel.DistributedDataParallel(torch.jit.script(net))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(6):
    x = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(8, 4))
dist.destroy_process_group()
