"""Contrastive training: the momentum encoder runs in training mode without gradients; it is never trained itself."""
# doctor: expect= style=class

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def encoder():
    return nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8))


dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(384, 12))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=sampler)
query, key = DDP(encoder()), encoder()
key.load_state_dict(copy.deepcopy(query.module.state_dict()))
optimizer = torch.optim.SGD(query.parameters(), lr=0.05)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for (x,) in loader:
        with torch.no_grad():
            wanted = key(x + 0.1 * torch.randn_like(x))
        loss = nn.functional.cross_entropy(query(x) @ wanted.T, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(key.parameters(), query.module.parameters()):
                slow.lerp_(fast, 0.01)
dist.destroy_process_group()
