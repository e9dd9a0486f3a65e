"""Homework 3: model parallelism over all GPUs. The layers are spread evenly over as many devices as there are.

python course/homework3_model_parallel.py
"""

import statistics
import time

import torch
from constants import check_devices, constant, seed
from devices import describe, device_of, find_devices, place, synchronize
from torch import nn

DIM = constant("DIM", 1024)  # width of every layer
DEPTH = constant("DEPTH", 20)  # number of layers
BATCH = constant("BATCH", 64)
STEPS = constant("STEPS", 40)
WARMUP = constant("WARMUP", 5, least=0)  # first steps, which do not count
SEED = seed(0)  # SEED=none: not fixed
LR = constant("LR", 0.01, least=0)
DEVICES = constant("DEVICES", 0, least=0) or torch.cuda.device_count() or 2  # 0: all GPUs; without one, 2 logical


class LargeLinearModelMP(nn.Module):
    """`depth` layers of `dim` x `dim` weights, spread evenly over the devices."""

    def __init__(self, dim, depth, devices):
        super().__init__()
        self.layers, self.layer_devices = nn.ModuleList(), []
        self.transfers = 0  # counted by forward()
        for i in range(depth):
            layer_device = devices[i * len(devices) // depth]
            self.layers.append(place(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()), layer_device))
            self.layer_devices.append(layer_device)

    def forward(self, x):
        for layer, layer_device in zip(self.layers, self.layer_devices, strict=True):
            self.transfers += device_of(x) != str(layer_device)
            x = x.to(layer_device)  # the hand-over: a copy where the device changes, nothing elsewhere
            x = layer(x)
        return x


def main():
    check_devices(DIM, DEPTH, BATCH, STEPS, WARMUP, DEVICES, split="layers")
    devices = find_devices(DEVICES)
    if SEED is not None:
        torch.manual_seed(SEED)
        torch.cuda.manual_seed_all(SEED)
    model = LargeLinearModelMP(DIM, DEPTH, devices)
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    x, y = torch.randn(2, BATCH, DIM)
    x, y = x.to(devices[0]), y.to(devices[-1])  # data where the first layer is, targets where the last one is

    def clock():
        synchronize(devices)
        return time.perf_counter()

    times = []
    for step in range(STEPS):
        optimizer.zero_grad()
        model.transfers = 0
        start = clock()
        output = model(x)
        loss = loss_fn(output, y)
        loss.backward()  # the gradient goes back through the same hand-overs
        optimizer.step()
        times.append(clock() - start)
        note = "  (warm-up)" if step < WARMUP else ""
        print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.9g}{note}", flush=True)
    print(f"transfers in one forward pass: {model.transfers}")
    describe(model, devices, lambda: loss_fn(model(x), y))
    median = statistics.median(times[WARMUP:]) * 1000
    print(f"devices: {DEVICES}, layers: {DEPTH}, median {median:.3f} ms over {STEPS - WARMUP} steps after warm-up")


if __name__ == "__main__":
    main()
