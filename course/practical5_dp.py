"""Practical 5: nn.DataParallel. One process; the first device hands out the work of every step and collects it.

python course/practical5_dp.py
"""

import statistics
import time

import torch
from constants import check_devices, constant, seed
from devices import LogicalDataParallel, LogicalDevice, find_devices, synchronize
from torch import nn

DIM = constant("DIM", 1024)  # width of every layer
DEPTH = constant("DEPTH", 2)  # number of layers
BATCH = constant("BATCH", 64)  # global: all devices together
STEPS = constant("STEPS", 40)
WARMUP = constant("WARMUP", 5, least=0)  # first steps, which do not count
SEED = seed(0)  # SEED=none: not fixed
LR = constant("LR", 0.01, least=0)
DEVICES = constant("DEVICES", 2)


class LargeLinearModel(nn.Module):
    """`depth` layers of `dim` x `dim` weights."""

    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def main():
    check_devices(DIM, DEPTH, BATCH, STEPS, WARMUP, DEVICES, split="batch")
    devices = find_devices(DEVICES)
    if SEED is not None:
        torch.manual_seed(SEED)
        torch.cuda.manual_seed_all(SEED)
    model = LargeLinearModel(DIM, DEPTH)
    if isinstance(devices[0], LogicalDevice):
        model = LogicalDataParallel(model, devices)
    else:
        model = nn.DataParallel(model.to(devices[0]), device_ids=devices)
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    x, y = (part.to(devices[0]) for part in torch.randn(2, BATCH, DIM))

    def clock():
        synchronize(devices)
        return time.perf_counter()

    times = []
    for step in range(STEPS):
        optimizer.zero_grad()
        start = clock()
        output = model(x)  # scatter, replicate, compute on all devices at once, gather
        loss = loss_fn(output, y)  # on the first device
        loss.backward()  # the gradients of all devices are added up on the first
        optimizer.step()
        times.append(clock() - start)
        note = "  (warm-up)" if step < WARMUP else ""
        print(f"step {step:3}  {times[-1] * 1000:9.3f} ms  loss {loss.item():.9g}{note}", flush=True)
    median = statistics.median(times[WARMUP:]) * 1000
    print(
        f"devices: {DEVICES}, global batch: {BATCH}, median {median:.3f} ms over {STEPS - WARMUP} steps after warm-up"
    )


if __name__ == "__main__":
    main()
