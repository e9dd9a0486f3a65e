"""An exponential moving average of the weights that is evaluated instead of the model."""
# doctor: expect= style=trainer

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EMA:
    def __init__(self, model, decay=0.99):
        self.shadow = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs
        torch.manual_seed(0)
        x = torch.randn(160, 10)
        y = (x[:, :1] * 2 - x[:, 1:2]).tanh()
        train, valid = TensorDataset(x[:128], y[:128]), TensorDataset(x[128:], y[128:])
        self.sampler = DistributedSampler(train)
        self.train_loader = DataLoader(train, batch_size=16, sampler=self.sampler)
        self.valid_loader = DataLoader(valid, batch_size=16)  # every rank looks at all of it
        net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1))
        self.ema = EMA(net)
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)
        self.loss_fn = nn.SmoothL1Loss()

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.ema.update(self.model.module)
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        losses = [self.loss_fn(self.ema.shadow(x), y) for x, y in self.valid_loader]
        return torch.stack(losses).mean().item()

    def fit(self):
        for epoch in range(self.epochs):
            self.sampler.set_epoch(epoch)
            self.model.train()
            total = torch.zeros(())
            for x, y in self.train_loader:
                total += self.step(x, y)
            score = self.validate()
            if dist.get_rank() == 0:
                print(f"{epoch}: train {total.item() / len(self.train_loader):.4f} valid {score:.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer(epochs=3).fit()
    dist.destroy_process_group()
