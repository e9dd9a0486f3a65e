"""Ranks with different numbers of batches, under DDP's join context."""
# doctor: expect= style=join

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    rows = 80 + 24 * rank
    loader = DataLoader(TensorDataset(torch.randn(rows, 6), torch.randn(rows, 1)), batch_size=8, shuffle=True)
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        with Join([model]):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
