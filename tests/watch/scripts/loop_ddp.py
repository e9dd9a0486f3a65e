"""Two ranks with DDP, called in the ways people call it; one of three layers may stay unused."""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MICRO_BATCHES = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
        self.register_buffer("table", torch.ones(4))

    def forward(self, x, head=0):
        if how == "counts":
            self.table += 1
        return self.heads[head](torch.relu(self.body(x)))


class Trainer(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).pow(2).mean()


def inner(model, x, head):
    if how == "bypass":
        return model.module(x, head)
    if how == "part":
        return model.module.heads[head](torch.relu(model.module.body(x)))
    return model(x, head)


def main():
    torch.manual_seed(0)
    net = Net()
    model = DDP(net, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trainer = Trainer(model)
    torch.manual_seed(dist.get_rank() + 1)
    for _ in range(4):
        for micro in range(MICRO_BATCHES):
            last = micro == MICRO_BATCHES - 1
            if how == "flag":
                model.require_backward_grad_sync = last
            head = dist.get_rank() if how == "heads" else 0
            with model.no_sync() if how == "no_sync" and not last else contextlib.nullcontext():
                x = torch.randn(4, 8)
                loss = trainer(x) if how == "inside" else inner(model, x, head).pow(2).mean()
                (loss / MICRO_BATCHES).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(float(loss.detach()).hex(), flush=True)


how = sys.argv[1]
if __name__ == "__main__":
    dist.init_process_group("gloo")
    main()
    dist.destroy_process_group()
