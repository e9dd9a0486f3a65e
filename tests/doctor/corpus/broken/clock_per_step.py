"""Trains on a GPU and prints how long a step takes."""

# doctor: expect=clock-without-synchronise style=main on=cpu
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 12


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + dist.get_rank())
    for step in range(STEPS):
        x = torch.randn(16, 32, device="cuda")
        start = time.time()
        optimizer.zero_grad()
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        #+ torch.cuda.synchronize()
        elapsed = time.time() - start
        if dist.get_rank() == 0:
            print(f"step {step}: {elapsed * 1000:.2f} ms")
        if step % 6 == 5:
            print(f"loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
