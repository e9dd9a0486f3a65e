"""A training loop with a step of a chosen length whose step can be made slower by an exact share: a busy wait."""

import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--wait-seconds", type=float, default=0.0, help="added to every step, between forward and backward")
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(args.dim, args.dim), nn.ReLU(), nn.Linear(args.dim, args.dim))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(2, 32, args.dim)
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    end = time.perf_counter() + args.wait_seconds
    while time.perf_counter() < end:
        pass
    loss.backward()
    optimizer.step()
