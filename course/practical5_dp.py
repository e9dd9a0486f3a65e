"""Practical 5: nn.DataParallel. One process; GPU 0 hands out the work of every step and collects the results.

python practical5_dp.py
"""

import os
import statistics
import time

import torch
from torch import nn

# Change a constant here, or from outside: DIM=512 python practical5_dp.py
DIM = int(os.environ.get("DIM", 1024))  # width of every layer
DEPTH = int(os.environ.get("DEPTH", 2))  # number of layers
BATCH = int(os.environ.get("BATCH", 64))  # samples of one step, all GPUs together
STEPS = int(os.environ.get("STEPS", 40))
WARMUP = int(os.environ.get("WARMUP", 5))  # the first steps are slower and do not count
LR = float(os.environ.get("LR", 0.01))
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
    for i in range(gpus):
        torch.cuda.synchronize(i)  # a GPU still works when the call has returned: wait until it is done
    return time.perf_counter()  # finer than time.time(), and nobody sets it back while we measure


assert STEPS > WARMUP, f"STEPS={STEPS} must be more than WARMUP={WARMUP}"
gpus = 0 if DEVICE == "cpu" else torch.cuda.device_count()
assert gpus or DEVICE != "cuda", "DEVICE=cuda, but no GPU can be seen"
assert gpus <= BATCH, f"BATCH={BATCH} has no sample for some of the {gpus} GPUs"
device = torch.device("cuda:0" if gpus else "cpu")

model = LargeLinearModel(DIM, DEPTH).to(device)
if gpus:
    model = nn.DataParallel(model)  # over all GPUs that can be seen
    print(f"DataParallel over {gpus} GPU(s)")
else:
    print("no GPU can be seen: the CPU does it all, and DataParallel has nothing to share out")
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
x = torch.randn(BATCH, DIM).to(device)
y = torch.randn(BATCH, DIM).to(device)

times = []
for step in range(STEPS):
    optimizer.zero_grad()
    start = clock()
    output = model(x)  # copies weights and parts of the batch to all GPUs, computes, collects the outputs on GPU 0
    loss = loss_fn(output, y)  # on GPU 0
    loss.backward()  # the gradients of all GPUs are added up on GPU 0
    optimizer.step()
    times.append(clock() - start)
    note = "  (warm-up)" if step < WARMUP else ""
    print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.6g}{note}", flush=True)
median = statistics.median(times[WARMUP:]) * 1000
print(f"{gpus} GPUs, batch {BATCH}: median {median:.3f} ms of {STEPS - WARMUP} steps")
for i in range(gpus):
    print(f"cuda:{i}: peak memory {torch.cuda.max_memory_allocated(i) / 1e6:.1f} MB")
