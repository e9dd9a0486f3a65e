"""Mixed precision with accumulation and a scaler; the loss is scaled, never divided."""
# doctor: expect=loss-not-divided style=trainer

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, dataset, micro_batches):
        self.model = DistributedDataParallel(model)
        self.sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, batch_size=8, sampler=self.sampler)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)
        self.scaler = GradScaler("cpu", init_scale=1024.0)
        self.micro_batches = micro_batches

    def loss(self, x, y):
        with autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        #+ loss = loss / self.micro_batches
        return loss

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for number, (x, y) in enumerate(self.loader, 1):
                full = number % self.micro_batches == 0
                with nullcontext() if full else self.model.no_sync():
                    loss = self.loss(x, y)
                    self.scaler.scale(loss).backward()
                if full:
                    self.scaler.unscale_(self.optimizer)
                    nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    Trainer(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), data, 4).fit(2)
    dist.destroy_process_group()
