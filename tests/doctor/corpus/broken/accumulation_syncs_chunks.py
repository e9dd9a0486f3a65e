"""A Trainer that cuts each batch into chunks for memory and forgets that DDP reduces in every chunk."""
# doctor: expect=sync-every-micro-batch style=trainer args=--chunks 4

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, net, data, chunks):
        self.net = DistributedDataParallel(net)
        self.sampler = DistributedSampler(data, seed=7)
        self.data = DataLoader(data, batch_size=32, sampler=self.sampler, drop_last=True)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.chunks = chunks

    def train_batch(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        parts = list(zip(x.chunk(self.chunks), y.chunk(self.chunks), strict=True))
        for index, (xc, yc) in enumerate(parts):
            #+ self.net.require_backward_grad_sync = index == self.chunks - 1
            out = self.net(xc)
            loss = F.mse_loss(out, yc) / self.chunks
            loss.backward()
        self.opt.step()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.data:
                self.train_batch(x, y)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=2)
    arguments = parser.parse_args()
    dist.init_process_group(backend="gloo")
    torch.manual_seed(1)
    samples = TensorDataset(torch.randn(512, 24), torch.randn(512, 4))
    Trainer(nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 4)), samples, arguments.chunks).fit(2)
    dist.destroy_process_group()
