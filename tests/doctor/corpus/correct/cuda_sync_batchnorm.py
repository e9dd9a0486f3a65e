"""Batch statistics over all GPUs, channels last, gradients sent in bfloat16: none of it is for a CPU."""
# doctor: expect= on=cpu style=vision

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
net = nn.SyncBatchNorm.convert_sync_batchnorm(net).to(f"cuda:{local}", memory_format=torch.channels_last)
model = DDP(net, device_ids=[local], output_device=local)
model.register_comm_hook(None, bf16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.randn(64, 1, 8, 8), torch.randint(0, 3, (64,)))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=8, sampler=sampler, pin_memory=True)
scaler = torch.amp.GradScaler("cuda", init_scale=128)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        images, labels = images.cuda(local, non_blocking=True), labels.cuda(local, non_blocking=True)
        with torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if local == 0:
        print(epoch, loss.item(), torch.cuda.max_memory_allocated())
dist.destroy_process_group()
