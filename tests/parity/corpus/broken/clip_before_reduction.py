"""Each rank clips its own gradient, and the clipped ones are averaged."""
# parity: cause=

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(8):
        x = torch.randn(8, 8)
        y = x.sum(1, keepdim=True)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)  # wrong
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        # + nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
