"""Linear+ReLU with accumulation, under DDP or not, in float16 or not: its memory can be worked out by hand."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

DIM, DEPTH, BATCH, MICRO_BATCHES = 64, 3, 8, 2
PRECISION, WEIGHT, SCALE = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])


def train() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(DEPTH) for layer in (nn.Linear(DIM, DIM), nn.ReLU())])
    if "RANK" in os.environ:
        model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE or 1.0, enabled=SCALE > 0)
    dtype = getattr(torch, PRECISION)
    for step in range(6):
        total = 0.0
        for micro in range(MICRO_BATCHES):
            x, y = torch.randn(BATCH, DIM), torch.randn(BATCH, DIM)
            last = micro == MICRO_BATCHES - 1 or not isinstance(model, DDP)
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
                    loss = nn.functional.mse_loss(model(x), y) / MICRO_BATCHES * WEIGHT
                scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step} {total.hex()}", flush=True)


if __name__ == "__main__":
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    train()
    if "RANK" in os.environ:
        dist.destroy_process_group()
