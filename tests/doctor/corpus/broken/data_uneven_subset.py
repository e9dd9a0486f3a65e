"""The dataset is dealt out by hand, one sample after the other."""
# doctor: expect=uneven-ranks also=left-early,collective-on-some-ranks style=main stall=3

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(97, 6), torch.randn(97, 1))
    part = Subset(dataset, range(rank, len(dataset), world_size))
    loader = DataLoader(part, batch_size=8)  # wrong
    #+ loader = DataLoader(part, batch_size=8, drop_last=True)
    model = DDP(nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
