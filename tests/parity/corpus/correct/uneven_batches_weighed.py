"""The last batch is uneven, and each rank's loss is weighed by its samples."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, y = torch.randn(35, 6), torch.randn(35, 2)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for begin in range(0, 35, 8):
            end = min(begin + 8, 35)
            own = slice(begin + rank, end, world)
            loss = F.mse_loss(model(x[own]), y[own]) * len(x[own]) * world / (end - begin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
