"""A training step under a decorator, with all that is in it."""
# doctor: expect=backward-under-autocast style=function-per-step

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


@torch.autocast("cpu", dtype=torch.float16)
def forward(model, x, y):
    return nn.functional.mse_loss(model(x), y)


@torch.autocast("cpu", dtype=torch.float16)  # wrong
def training_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = forward(model, x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(7 + dist.get_rank())
    for _ in range(8):
        training_step(model, optimizer, torch.randn(8, 8), torch.randn(8, 2))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
