"""Trains so many steps, notes each in a common file while it is at it, and in the end does what it is told."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def spin() -> None:
    while True:
        time.sleep(0.01)


ENDS = {"finish": lambda: None, "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL), "spin": spin}


def main() -> None:
    steps, end = int(sys.argv[1]), ENDS[sys.argv[2]]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as many scripts do: a broken pipe is then the end
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Linear(8, 8)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        with open(os.environ["LOG"], "a", encoding="utf-8") as log:
            log.write(f"{os.environ['NAME']} {step}\n")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
    end()


main()
