"""A training loop with a step of a chosen length whose step can be made slower by an exact share: a busy wait."""

import argparse
import ctypes
import time

import torch
from torch import nn

DIM = 128
parser = argparse.ArgumentParser()
parser.add_argument("--depth", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--wait-seconds", type=float, default=0.0, help="added to every step, between forward and backward")
args = parser.parse_args()

# Whether glibc gives freed gradients back to the system depends on the luck of the heap's layout and moves a whole run
# by several percent: what is asked here is whether 2 % of work are found, not whether luck is.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 30)
ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
torch.manual_seed(0)
model = nn.Sequential(*(layer for _ in range(args.depth) for layer in (nn.Linear(DIM, DIM), nn.ReLU())))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(2, 32, DIM)
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    end = time.perf_counter() + args.wait_seconds
    while time.perf_counter() < end:
        pass
    loss.backward()
    optimizer.step()
