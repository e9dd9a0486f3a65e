"""Practical 8: model parallelism. The first half of the layers lies on GPU 0, the second half on GPU 1.

python practical8_model_parallel.py
"""

import os
import statistics
import time

import torch
from torch import nn

# Change a constant here, or from outside: DEPTH=24 python practical8_model_parallel.py
DIM = int(os.environ.get("DIM", 1024))  # width of every layer
DEPTH = int(os.environ.get("DEPTH", 6))  # number of layers
BATCH = int(os.environ.get("BATCH", 64))  # samples of one step
STEPS = int(os.environ.get("STEPS", 40))
WARMUP = int(os.environ.get("WARMUP", 5))  # the first steps are slower and do not count
LR = float(os.environ.get("LR", 0.01))
DEVICE = os.environ.get("DEVICE", "auto")  # cpu: leave the GPUs alone; cuda: insist on one

if os.environ.get("SEED") != "none":  # SEED=none: every run gets other weights and other data
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)


class LargeLinearModelMP(nn.Module):
    def __init__(self, dim, depth, first, second):
        super().__init__()
        self.layers = nn.ModuleList()
        self.layer_devices = []
        for i in range(depth):
            if i < depth // 2:
                layer_device = first
            else:
                layer_device = second
            self.layers.append(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()).to(layer_device))
            self.layer_devices.append(layer_device)

    def forward(self, x):
        for layer, layer_device in zip(self.layers, self.layer_devices, strict=True):
            x = x.to(layer_device)  # the data moves here: a copy where the device changes, nothing elsewhere
            x = layer(x)
        return x


def clock():
    for i in range(gpus):
        torch.cuda.synchronize(i)  # a GPU still works when the call has returned: wait until it is done
    return time.perf_counter()  # finer than time.time(), and nobody sets it back while we measure


assert STEPS > WARMUP, f"STEPS={STEPS} must be more than WARMUP={WARMUP}"
gpus = 0 if DEVICE == "cpu" else min(2, torch.cuda.device_count())
assert gpus or DEVICE != "cuda", "DEVICE=cuda, but no GPU can be seen"
first = torch.device("cuda:0" if gpus else "cpu")
second = torch.device("cuda:1") if gpus == 2 else first
if gpus < 2:
    print(f"fewer than two GPUs: all layers lie on {first}, and nothing moves")

model = LargeLinearModelMP(DIM, DEPTH, first, second)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
x = torch.randn(BATCH, DIM).to(first)  # the data lies where the first layer is,
y = torch.randn(BATCH, DIM).to(second)  # the targets where the last one is

times = []
for step in range(STEPS):
    optimizer.zero_grad()
    start = clock()
    output = model(x)
    loss = loss_fn(output, y)
    loss.backward()  # the gradient goes back the same way, with a copy where the device changes
    optimizer.step()
    times.append(clock() - start)
    if len(times) == WARMUP:
        for i in range(gpus):
            torch.cuda.reset_peak_memory_stats(i)  # the peak of the steps that count
    note = "  (warm-up)" if step < WARMUP else ""
    print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.6g}{note}", flush=True)
print("layer devices:", *model.layer_devices)
median = statistics.median(times[WARMUP:]) * 1000
print(f"{DEPTH} layers: median {median:.3f} ms of {STEPS - WARMUP} steps")
for i in range(gpus):
    print(f"cuda:{i}: peak memory {torch.cuda.max_memory_allocated(i) / 1e6:.1f} MB")
