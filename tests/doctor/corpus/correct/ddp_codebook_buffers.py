"""A quantiser whose codebook is a large buffer that forward itself moves along: rank 0's must be sent."""
# doctor: expect= style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Quantiser(nn.Module):
    def __init__(self, codes=10000, width=32):
        super().__init__()
        self.encode, self.decode = nn.Linear(16, width), nn.Linear(width, 16)
        self.register_buffer("codebook", torch.randn(codes, width))

    def forward(self, x):
        z = self.encode(x)
        with torch.no_grad():
            nearest = torch.cdist(z, self.codebook).argmin(1)
            if self.training:
                self.codebook[nearest] = self.codebook[nearest].lerp(z.detach(), 0.1)
        return self.decode(z + (self.codebook[nearest] - z).detach())


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = DistributedDataParallel(Quantiser())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def fit(self):
        self.loader.sampler.set_epoch(0)
        for (x,) in self.loader:
            loss = nn.functional.mse_loss(self.model(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(96, 16))
Trainer(DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))).fit()
dist.destroy_process_group()
