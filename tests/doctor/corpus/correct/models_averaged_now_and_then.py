"""Local SGD without a wrapper: every rank trains by itself, and every four steps the models are averaged."""
# doctor: expect= style=local-sgd

import torch
import torch.distributed as dist
from torch import nn


@torch.no_grad()
def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter)
        parameter /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(10 + dist.get_rank())
    for step in range(1, 17):
        x = torch.randn(16, 12)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :2]).backward()
        optimizer.step()
        if step % 4 == 0:
            average(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
