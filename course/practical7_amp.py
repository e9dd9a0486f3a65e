"""Practical 7, Code 2: DDP with automatic mixed precision. Layers compute in 16 bits, weights stay in 32.

torchrun --nproc_per_node=2 practical7_amp.py
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel

# Change a constant here, or from outside: DIM=512 torchrun --nproc_per_node=2 practical7_amp.py
DIM = int(os.environ.get("DIM", 1024))  # width of every layer
DEPTH = int(os.environ.get("DEPTH", 2))  # number of layers
BATCH = int(os.environ.get("BATCH", 64))  # samples of one step, all ranks together
STEPS = int(os.environ.get("STEPS", 40))
WARMUP = int(os.environ.get("WARMUP", 5))  # the first steps are slower and do not count
LR = float(os.environ.get("LR", 0.01))
PRECISION = os.environ.get("PRECISION", "float16")  # or bfloat16; float32: no mixed precision
SCALER = os.environ.get("SCALER", "1") == "1"  # 0: small gradients become 0 in float16
LOSS_WEIGHT = float(os.environ.get("LOSS_WEIGHT", 1))  # a small one makes small gradients
DEVICE = os.environ.get("DEVICE", "auto")  # cpu: leave the GPUs alone; cuda: insist on one

if os.environ.get("SEED") != "none":  # SEED=none: every run gets other weights and other data
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)


class LargeLinearModel(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth)])

    def forward(self, x):
        return self.layers(x)


def clock():
    if device.type == "cuda":
        torch.cuda.synchronize()  # a GPU still works when the call has returned: wait until it is done
    return time.perf_counter()  # finer than time.time(), and nobody sets it back while we measure


assert "RANK" in os.environ, "start it with: torchrun --nproc_per_node=2 practical7_amp.py"
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert BATCH > 0 and BATCH % ranks == 0, f"BATCH={BATCH} cannot be shared evenly by {ranks} ranks"
assert STEPS > WARMUP, f"STEPS={STEPS} must be more than WARMUP={WARMUP}"
gpus = 0 if DEVICE == "cpu" else torch.cuda.device_count()
assert gpus or DEVICE != "cuda", "DEVICE=cuda, but no GPU can be seen"
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % gpus) if gpus else torch.device("cpu")
if gpus:
    torch.cuda.set_device(device)
# NCCL needs a GPU for every rank. gloo works on the CPU, and on a GPU that ranks share.
dist.init_process_group("nccl" if gpus >= int(os.environ["LOCAL_WORLD_SIZE"]) else "gloo")

model = DistributedDataParallel(LargeLinearModel(DIM, DEPTH).to(device))
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
# With the same seed every rank draws the same batch and takes its own part of it; with SEED=none, of another batch.
x = torch.randn(BATCH, DIM).chunk(ranks)[rank].to(device)
y = torch.randn(BATCH, DIM).chunk(ranks)[rank].to(device)
dtype = getattr(torch, PRECISION)
scaler = GradScaler(device.type, enabled=SCALER and dtype == torch.float16)  # the others keep small gradients

times = []
for step in range(STEPS):
    optimizer.zero_grad()
    start = clock()
    with autocast(device_type=device.type, dtype=dtype, enabled=dtype != torch.float32):
        output = model(x)
        loss = loss_fn(output, y) * LOSS_WEIGHT
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    times.append(clock() - start)
    if len(times) == WARMUP and gpus:
        torch.cuda.reset_peak_memory_stats()  # the peak of the steps that count
    if rank == 0:
        note = "  (warm-up)" if step < WARMUP else ""
        print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss on rank 0 {loss.item():.6g}{note}", flush=True)
if rank == 0:
    median = statistics.median(times[WARMUP:]) * 1000
    print(f"{ranks} ranks on {device.type}, {PRECISION}: median {median:.3f} ms of {STEPS - WARMUP} steps")
    if gpus:
        print(f"peak memory on rank 0: {torch.cuda.max_memory_allocated() / 1e9:.4g} GB")
time.sleep(0.1)  # gloo's own thread has to finish, too: it aborts the process if Python ends before it
dist.destroy_process_group()
