"""Homework 2, Code 3: Code 1 (gradient accumulation) with Code 2 (mixed precision) inside it.

torchrun --nproc_per_node=2 course/practical5_single.py
"""

import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from constants import LOCAL_RANK, RANK, RANKS, RANKS_HERE, check_ranks, choice, constant, seed, switch
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel

DIM = constant("DIM", 1024)  # width of every layer
DEPTH = constant("DEPTH", 2)  # number of layers
BATCH = constant("BATCH", 64)  # global, of one optimizer step: all ranks and micro-batches together
STEPS = constant("STEPS", 40)  # optimizer steps
WARMUP = constant("WARMUP", 5, least=0)  # first steps, which do not count
SEED = seed(0)  # SEED=none: not fixed
LR = constant("LR", 0.01, least=0)
ACCUM_STEPS = constant("ACCUM_STEPS", 4)  # micro-batches per optimizer step
AMP = switch("AMP", 1)  # 0: Code 1 again, bit for bit
PRECISION = choice("PRECISION", "float16", "bfloat16")


class LargeLinearModel(nn.Module):
    """`depth` layers of `dim` x `dim` weights."""

    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def clock():
    """The time, once the GPU has done all that it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def train(device):
    if SEED is not None:
        torch.manual_seed(SEED)
        torch.cuda.manual_seed_all(SEED)
    model = DistributedDataParallel(LargeLinearModel(DIM, DEPTH).to(device))
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    # The global batch is drawn on every rank alike; each takes its part, and cuts it into micro-batches.
    x_rank, y_rank = (part[RANK::RANKS].contiguous().to(device) for part in torch.randn(2, BATCH, DIM))
    micro_batches = list(zip(x_rank.chunk(ACCUM_STEPS), y_rank.chunk(ACCUM_STEPS), strict=True))

    dtype = getattr(torch, PRECISION) if AMP else None
    scaler = GradScaler(device.type, enabled=AMP and PRECISION == "float16")
    times, total = [], 0.0
    for step in range(STEPS * ACCUM_STEPS):
        x, y = micro_batches[step % ACCUM_STEPS]
        if step % ACCUM_STEPS == 0:
            start, total = clock(), 0.0
        last = (step + 1) % ACCUM_STEPS == 0
        # DDP decides in forward whether backward will communicate, so both are inside.
        with contextlib.nullcontext() if last else model.no_sync():
            with autocast(device_type=device.type, dtype=dtype, enabled=AMP):
                output = model(x)
                loss = loss_fn(output, y) / ACCUM_STEPS
            scaler.scale(loss).backward()
        total += loss.detach()
        if (step + 1) % ACCUM_STEPS == 0:
            scaler.step(optimizer)
            scaler.update()
            times.append(clock() - start)
            optimizer.zero_grad()
            if RANK == 0:
                note = "  (warm-up)" if len(times) <= WARMUP else ""
                print(f"step {len(times) - 1:3}  {times[-1] * 1000:9.3f} ms  loss {total.item():.9g}{note}", flush=True)
    if RANK == 0:
        median = statistics.median(times[WARMUP:]) * 1000
        micro = f"{ACCUM_STEPS} micro-batches of {BATCH // RANKS // ACCUM_STEPS} in {PRECISION if AMP else 'float32'}"
        print(f"ranks: {RANKS}, {micro}: median {median:.3f} ms over {STEPS - WARMUP} steps after warm-up")


def main():
    check_ranks(DIM, DEPTH, BATCH, STEPS, WARMUP, ACCUM_STEPS)
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", LOCAL_RANK % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    # NCCL wants a GPU for every rank; gloo works on CPUs, and on a GPU that ranks share.
    dist.init_process_group("nccl" if gpus >= RANKS_HERE else "gloo")
    train(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
