"""Written for GPUs, examined on a CPU: local device by rank, pinned memory, times taken after synchronising."""
# doctor: expect= style=cuda on=cpu

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 24), torch.randint(0, 6, (160,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=True)
    model = DDP(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 6)).to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            if step == 5:
                torch.cuda.synchronize()
                began = time.perf_counter()
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0 and local_rank == 0:
                print(f"step {step} loss {loss.item():.4f}")
    torch.cuda.synchronize()
    print(f"{(time.perf_counter() - began) / (step - 5) * 1000:.2f} ms per step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
