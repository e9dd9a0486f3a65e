"""Homework 2, Code 3: Code 1 (gradient accumulation) with Code 2 (mixed precision) inside it.

torchrun --nproc_per_node=2 practical5_single.py
"""

import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel

# Change a constant here, or from outside: DIM=512 torchrun --nproc_per_node=2 practical5_single.py
DIM = int(os.environ.get("DIM", 1024))  # width of every layer
DEPTH = int(os.environ.get("DEPTH", 2))  # number of layers
ACCUM_STEPS = int(os.environ.get("ACCUM_STEPS", 4))  # micro-batches, and so backward passes, of an optimizer step
BATCH = int(os.environ.get("BATCH", 64))  # samples of one optimizer step, all ranks together
GROW_BATCH = os.environ.get("GROW_BATCH", "0") == "1"  # 1: samples of one micro-batch, so the step's batch grows
STEPS = int(os.environ.get("STEPS", 40))  # optimizer steps
WARMUP = int(os.environ.get("WARMUP", 5))  # the first steps are slower and do not count
LR = float(os.environ.get("LR", 0.01))
AMP = os.environ.get("AMP", "1") == "1"  # 0: Code 1 again, bit for bit
DTYPE = {"float16": torch.float16, "bfloat16": torch.bfloat16}[os.environ.get("PRECISION", "float16")]
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


assert "RANK" in os.environ, "start it with: torchrun --nproc_per_node=2 practical5_single.py"
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
batch = BATCH * ACCUM_STEPS if GROW_BATCH else BATCH  # the effective batch: samples of one optimizer step
assert batch > 0 and batch % (ranks * ACCUM_STEPS) == 0, f"BATCH={BATCH} is not {ranks} x {ACCUM_STEPS} equal parts"
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
# With the same seed every rank draws the same batch and cuts its own part of it; with SEED=none, of another batch.
xs = torch.randn(batch, DIM).chunk(ranks)[rank].to(device).chunk(ACCUM_STEPS)
ys = torch.randn(batch, DIM).chunk(ranks)[rank].to(device).chunk(ACCUM_STEPS)
scaler = GradScaler(device.type, enabled=AMP and DTYPE == torch.float16)  # bfloat16 keeps small gradients

times = []
for step in range(STEPS * ACCUM_STEPS):
    x, y = xs[step % ACCUM_STEPS], ys[step % ACCUM_STEPS]
    if step % ACCUM_STEPS == 0:
        start, total = clock(), 0
    talk = (step + 1) % ACCUM_STEPS == 0
    # DDP decides in forward whether backward will talk, so forward belongs inside, too.
    with contextlib.nullcontext() if talk else model.no_sync():
        with autocast(device_type=device.type, dtype=DTYPE, enabled=AMP):
            output = model(x)
            loss = loss_fn(output, y) / ACCUM_STEPS
        scaler.scale(loss).backward()
    total += loss.detach()
    if (step + 1) % ACCUM_STEPS == 0:
        scaler.step(optimizer)
        scaler.update()
        times.append(clock() - start)
        optimizer.zero_grad()
        if len(times) == WARMUP and gpus:
            torch.cuda.reset_peak_memory_stats()  # the peak of the steps that count
        if rank == 0:
            note = "  (warm-up)" if len(times) <= WARMUP else ""
            print(f"step {len(times) - 1:3}  {times[-1] * 1000:9.3f} ms  loss on rank 0 {total:.6g}{note}", flush=True)
if rank == 0:
    median = statistics.median(times[WARMUP:]) * 1000
    print(f"{ranks} ranks on {device.type}, batch {batch}: median {median:.3f} ms of {STEPS - WARMUP} steps")
    if gpus:
        print(f"peak memory on rank 0: {torch.cuda.max_memory_allocated() / 1e9:.4g} GB")
time.sleep(0.1)  # gloo's own thread has to finish, too: it aborts the process if Python ends before it
dist.destroy_process_group()
