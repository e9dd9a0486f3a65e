"""The norm is computed once, for the log and for clipping, while the loss scale is still in the gradients."""
# doctor: expect=clip-before-unscale style=loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(9)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
dataset = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
sampler = DistributedSampler(dataset)
norms = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, labels in DataLoader(dataset, batch_size=6, sampler=sampler):
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        #+ scaler.unscale_(optimizer)
        norm = get_total_norm([parameter.grad for parameter in model.parameters()])
        clip_grads_with_norm_(model.parameters(), 1.0, norm)
        norms.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
dist.destroy_process_group()
