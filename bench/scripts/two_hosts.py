"""Trains a small model by DDP, and prints when its first step was over and how long its later steps took."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps, width, rows = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 64
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4))))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(rows, width)
seconds, first = [], 0.0
for _ in range(steps):
    began = time.perf_counter()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    seconds.append(time.perf_counter() - began)
    first = first or time.time()
if dist.get_rank() == 0:
    middle = sorted(seconds[10:])[len(seconds[10:]) // 2] if steps > 20 else 0.0
    print(json.dumps({"first": first, "median": middle, "host": os.environ.get("SLURMD_NODENAME", "")}), flush=True)
dist.destroy_process_group()
