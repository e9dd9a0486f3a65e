"""Activation checkpointing: every block's forward runs a second time inside backward."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        self.stem = nn.Linear(12, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(128, 12), torch.randint(0, 3, (128,)))
    sampler = DistributedSampler(dataset, shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    ddp = DDP(Net(), static_graph=True)
    opt = torch.optim.AdamW(ddp.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = criterion(ddp(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
            opt.step()
    if rank == 0:
        torch.save({"model": ddp.module.state_dict(), "opt": opt.state_dict()}, "last.pt")
    dist.barrier()
    dist.destroy_process_group()


main()
