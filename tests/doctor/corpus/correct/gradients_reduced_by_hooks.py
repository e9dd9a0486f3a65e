"""No wrapper: each gradient is reduced as soon as it is there, inside backward."""
# doctor: expect= style=hooks

import torch
import torch.distributed as dist
from torch import nn


def average(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 2))
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(10):
        x = torch.randn(16, 12)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :2]).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
