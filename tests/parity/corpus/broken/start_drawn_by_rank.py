"""Every rank seeds with its own number before it builds the model, and nobody broadcasts."""
# parity: cause=ranks-start-apart

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(42 + dist.get_rank())  # wrong
    # + torch.manual_seed(42)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
    # + torch.manual_seed(42 + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(8):
        x = torch.randn(8, 6)
        optimizer.zero_grad()
        F.mse_loss(model(x), x[:, :1]).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
