"""Fine-tuning with two samples on each rank: batch normalisation is frozen, and the new head has GroupNorm."""
# doctor: expect= style=functions

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def freeze(model):
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()
            layer.requires_grad_(False)


dist.init_process_group("gloo")
torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
head = nn.Sequential(nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
net = nn.Sequential(body, head)
freeze(net)
model = DDP(net)
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
torch.manual_seed(3 + dist.get_rank())
for _ in range(8):
    freeze(model)
    loss = nn.functional.cross_entropy(model(torch.randn(2, 3, 12, 12)), torch.randint(0, 3, (2,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
