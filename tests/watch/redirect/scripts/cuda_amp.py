"""A classifier as older tutorials write it: torch.cuda.amp, .cuda(), DistributedSampler, a checkpoint of rank 0."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

assert torch.cuda.is_available(), "needs a GPU"
dist.init_process_group("cpu:gloo,cuda:nccl")
local_rank = int(os.environ["LOCAL_RANK"])
assert torch.cuda.device_count() > local_rank
torch.cuda.set_device(local_rank)
torch.cuda.manual_seed_all(0)
torch.manual_seed(0)
model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))).cuda()
model = nn.parallel.DistributedDataParallel(model, [local_rank], local_rank)
data = TensorDataset(torch.randn(48, 8), torch.randint(0, 3, (48,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=True)
criterion = nn.CrossEntropyLoss().cuda(local_rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.cuda.amp.GradScaler()
shown = torch.zeros(1, device="cuda")
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        images = images.cuda(non_blocking=True)
        labels = labels.cuda(local_rank, non_blocking=True)
        assert images.device == torch.device("cuda", local_rank) and images.get_device() == local_rank
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        shown += loss.detach()
    dist.all_reduce(shown, op=dist.ReduceOp.AVG)
    print(f"epoch {epoch}: {shown.item():.6f}, {torch.cuda.max_memory_allocated() >= 0}")
    shown.zero_()
path = Path("checkpoint.pt")
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), path)
dist.barrier(device_ids=[local_rank])
weights = torch.load(path, map_location={"cuda:0": f"cuda:{local_rank}"})
model.module.load_state_dict(weights)
dist.destroy_process_group()
