"""The dataset is split before it reaches a plain shuffling loader; ranks share no sample."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(128, 6), torch.randn(128, 1))
    part = Subset(dataset, range(dist.get_rank(), len(dataset), dist.get_world_size()))
    loader = DataLoader(part, batch_size=8, shuffle=True)
    model = DDP(nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
