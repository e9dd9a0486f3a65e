"""Both kinds of FSDP and the collectives that only NCCL knows."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(0)


def train(model, name):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(name, loss.item() < 1)


model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
fully_shard(model, mesh=init_device_mesh("cuda", (2,)))
train(model, "fully_shard")
whole = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda()
train(FSDP(whole, device_id=torch.cuda.current_device(), use_orig_params=True), "FSDP")
numbers = torch.full((2,), float(rank), device="cuda")
work = dist.all_reduce(numbers, op=dist.ReduceOp.AVG, async_op=True)
work.wait()
print(dist.get_backend(), numbers.tolist(), numbers.device.type)
dist.barrier(device_ids=[rank])
dist.destroy_process_group()
