"""Practical 7, Code 2: DDP with automatic mixed precision. Layers compute in 16 bits, weights stay in 32.

torchrun --nproc_per_node=2 course/practical7_amp.py
"""

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
BATCH = constant("BATCH", 64)  # global: all ranks together
STEPS = constant("STEPS", 40)
WARMUP = constant("WARMUP", 5, least=0)  # first steps, which do not count
SEED = seed(0)  # SEED=none: not fixed
LR = constant("LR", 0.01, least=0)
PRECISION = choice("PRECISION", "float16", "bfloat16", "float32")  # float32: no autocast
SCALER = switch("SCALER", 1)  # float16 alone needs it: small gradients would be rounded to zero
LOSS_WEIGHT = constant("LOSS_WEIGHT", 1.0, least=0)


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
    # The global batch is drawn on every rank alike, and each takes its part.
    x, y = (part[RANK::RANKS].contiguous().to(device) for part in torch.randn(2, BATCH, DIM))

    use_amp = PRECISION != "float32"
    scaler = GradScaler(device.type, enabled=SCALER and PRECISION == "float16")
    times = []
    for step in range(STEPS):
        optimizer.zero_grad()
        start = clock()
        with autocast(device_type=device.type, dtype=getattr(torch, PRECISION) if use_amp else None, enabled=use_amp):
            output = model(x)
            loss = loss_fn(output, y) * LOSS_WEIGHT
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        times.append(clock() - start)
        if RANK == 0:
            note = "  (warm-up)" if step < WARMUP else ""
            print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.9g}{note}", flush=True)
    if RANK == 0:
        median = statistics.median(times[WARMUP:]) * 1000
        print(f"ranks: {RANKS}, {PRECISION}: median {median:.3f} ms over {STEPS - WARMUP} steps after warm-up")


def main():
    check_ranks(DIM, DEPTH, BATCH, STEPS, WARMUP)
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
