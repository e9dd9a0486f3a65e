"""The ranks write the newest state in turns, one at a time, and rank 0 the last one by a temporary file."""
# doctor: expect= style=main-loop

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if epoch % world == rank:
            torch.save(model.module.state_dict(), "newest.pt")
        dist.barrier()
    torch.save({"rank": rank, "rng": torch.get_rng_state()}, f"rng_{rank}.pt")
    if rank == 0:
        torch.save(model.module.state_dict(), "final.pt.tmp")
        os.replace("final.pt.tmp", "final.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
