"""The model itself decides to compute in half precision; the loop outside knows nothing of it."""
# doctor: expect=fp16-without-scaler style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 6))

    @torch.autocast("cpu", dtype=torch.float16)
    def forward(self, x):
        return self.layers(x)


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = DistributedDataParallel(Encoder())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        #+ self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def update(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        #+ self.scaler.scale(loss).backward()
        #+ self.scaler.step(self.optimizer)
        #+ self.scaler.update()
        loss.backward()  # wrong
        self.optimizer.step()  # wrong

    def fit(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.update(nn.functional.cross_entropy(self.model(x).float(), y))


dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(96, 24), torch.randint(0, 6, (96,)))
Trainer(DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))).fit(2)
dist.destroy_process_group()
