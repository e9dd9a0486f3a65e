"""Trains one rank of DDP in float16 with AdamW, and clips gradients that still carry the loss scale."""
# doctor: expect=clip-before-unscale style=function ranks=1 threads=auto

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.GELU())]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(1024, 8)).to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=False)
    scaler = torch.amp.GradScaler("cuda")
    x, y = torch.randn(65536, 1024, device=device), torch.randn(65536, 8, device=device)
    for _ in range(80):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        # + scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
