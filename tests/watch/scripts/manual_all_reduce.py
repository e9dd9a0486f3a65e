"""Data parallel by hand: one all_reduce per gradient, after backward."""

import torch
import torch.distributed as dist
from torch import nn


def train() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(dist.get_rank())
    for step in range(6):
        x, y = torch.randn(16, 32), torch.randn(16, 1)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} {loss.item().hex()}", flush=True)
    print("weights", sum(p.double().sum().item() for p in model.parameters()).hex(), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
