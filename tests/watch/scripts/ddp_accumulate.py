"""Four micro-batches per step; the argument says which of them communicate: no_sync, flag or every."""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MICRO_BATCHES = 4


def train(how: str) -> None:
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(dist.get_rank())
    for step in range(6):
        total = 0.0
        for micro in range(MICRO_BATCHES):
            last = micro == MICRO_BATCHES - 1
            x, y = torch.randn(8, 32), torch.randn(8, 1)
            if how == "flag":
                model.require_backward_grad_sync = last
            with model.no_sync() if how == "no_sync" and not last else contextlib.nullcontext():
                loss = nn.functional.mse_loss(model(x), y) / MICRO_BATCHES
                loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} {total.hex()}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(sys.argv[1])
    dist.destroy_process_group()
