"""All at once: two ranks, three micro-batches with no_sync, float16 and loss scaling."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MICRO_BATCHES = 3


def train() -> None:
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    torch.manual_seed(dist.get_rank())
    for step in range(6):
        total = 0.0
        for micro in range(MICRO_BATCHES):
            x, y = torch.randn(8, 32), torch.randn(8, 1)
            with contextlib.nullcontext() if micro == MICRO_BATCHES - 1 else model.no_sync():
                with torch.autocast("cpu", torch.float16):
                    loss = nn.functional.mse_loss(model(x), y) / MICRO_BATCHES
                scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
        print(f"step {step} {total.hex()}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
