"""A few steps of DDP over NCCL, one rank per GPU."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = DistributedDataParallel(torch.nn.Linear(8, 8, device=device), device_ids=[device.index])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        model(torch.ones(4, 8, device=device)).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()
    print("trained on", device)
    dist.destroy_process_group()


main()
