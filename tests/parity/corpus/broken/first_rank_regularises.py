"""Only rank 0 adds the penalty, so the average holds half of it."""
# parity: cause=

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(60, 5), torch.randn(60, 1))
    for x, y in DataLoader(data, batch_size=5, sampler=DistributedSampler(data)):
        loss = F.mse_loss(model(x), y)
        penalty = sum(p.abs().sum() for p in model.parameters()) * 0.01
        if dist.get_rank() == 0:  # wrong
        # + if True:
            loss = loss + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
