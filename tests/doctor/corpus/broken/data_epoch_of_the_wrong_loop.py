"""Steps counted over an endless iterator; the sampler is told an epoch that never changes."""
# doctor: expect=epoch-never-set style=while

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Endless:
    def __init__(self, loader):
        self.loader, self.passes = loader, 0
        self.batches = iter(())

    def next(self):
        batch = next(self.batches, None)
        if batch is None:
            self.loader.sampler.set_epoch(0)  # wrong
            #+ self.loader.sampler.set_epoch(self.passes)
            self.passes += 1
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(int(os.environ["RANK"]))
    data = TensorDataset(torch.linspace(-1, 1, 64).unsqueeze(1).repeat(1, 4), torch.linspace(-1, 1, 64))
    loader = DataLoader(data, 8, sampler=DistributedSampler(data, seed=7), num_workers=0)
    stream = Endless(loader)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(14):
        x, y = stream.next()
        loss = (net(x + 0.01 * torch.randn_like(x)).squeeze(1) - y).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.destroy_process_group()


main()
