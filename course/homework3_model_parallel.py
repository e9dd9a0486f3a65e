"""Homework 3: model parallelism over all GPUs. The layers are spread evenly over as many GPUs as there are.

python homework3_model_parallel.py
"""

import os
import statistics
import time

import torch
from torch import nn

# Change a constant here, or from outside: DEPTH=20 CUDA_VISIBLE_DEVICES=0,1 python homework3_model_parallel.py
DIM = int(os.environ.get("DIM", 1024))  # width of every layer
DEPTH = int(os.environ.get("DEPTH", 20))  # number of layers
BATCH = int(os.environ.get("BATCH", 64))  # samples of one step
STEPS = int(os.environ.get("STEPS", 40))
WARMUP = int(os.environ.get("WARMUP", 5))  # the first steps are slower and do not count
LR = float(os.environ.get("LR", 0.01))
DEVICE = os.environ.get("DEVICE", "auto")  # cpu: leave the GPUs alone; cuda: insist on one

if os.environ.get("SEED") != "none":  # SEED=none: every run gets other weights and other data
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)


class LargeLinearModelMP(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        gpus = 0 if DEVICE == "cpu" else torch.cuda.device_count()
        self.devices = [torch.device("cuda", i) for i in range(gpus)] or [torch.device("cpu")]
        self.layers = nn.ModuleList()
        self.layer_devices = []
        for i in range(depth):
            layer_device = self.devices[i * len(self.devices) // depth]  # in order, in groups as equal as can be
            self.layers.append(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()).to(layer_device))
            self.layer_devices.append(layer_device)

    def forward(self, x):
        self.transfers = 0
        for layer, layer_device in zip(self.layers, self.layer_devices, strict=True):
            if x.device != layer_device:
                self.transfers += 1
            x = x.to(layer_device)  # the data moves here: a copy where the device changes, nothing elsewhere
            x = layer(x)
        return x


def clock():
    if model.devices[0].type == "cuda":
        for device in model.devices:
            torch.cuda.synchronize(device)  # a GPU still works when the call has returned: wait until it is done
    return time.perf_counter()  # finer than time.time(), and nobody sets it back while we measure


assert STEPS > WARMUP, f"STEPS={STEPS} must be more than WARMUP={WARMUP}"
assert DEVICE != "cuda" or torch.cuda.is_available(), "DEVICE=cuda, but no GPU can be seen"
model = LargeLinearModelMP(DIM, DEPTH)
if len(model.devices) == 1:
    print(f"fewer than two GPUs: all layers lie on {model.devices[0]}, and nothing moves")
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
x = torch.randn(BATCH, DIM).to(model.layer_devices[0])  # the data lies where the first layer is,
y = torch.randn(BATCH, DIM).to(model.layer_devices[-1])  # the targets where the last one is

times = []
for step in range(STEPS):
    optimizer.zero_grad()
    start = clock()
    output = model(x)
    loss = loss_fn(output, y)
    loss.backward()  # the gradient goes back the same way, with a copy where the device changes
    optimizer.step()
    times.append(clock() - start)
    if len(times) == WARMUP and model.devices[0].type == "cuda":
        for device in model.devices:
            torch.cuda.reset_peak_memory_stats(device)  # the peak of the steps that count
    note = "  (warm-up)" if step < WARMUP else ""
    print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.6g}{note}", flush=True)
print("layer devices:", *model.layer_devices)
print(f"transfers in one forward pass: {model.transfers}")
median = statistics.median(times[WARMUP:]) * 1000
print(f"{DEPTH} layers on {len(model.devices)} device(s): median {median:.3f} ms of {STEPS - WARMUP} steps")
for device in model.devices:
    if device.type == "cuda":
        print(f"{device}: peak memory {torch.cuda.max_memory_allocated(device) / 1e6:.1f} MB")
