"""Uses the scaler for its scale only: gradients are divided, checked, clipped and applied by hand."""
# doctor: expect= style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 2)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)

    def unscale(self):
        inverse = 1.0 / self.scaler.get_scale()
        finite = True
        for parameter in self.model.parameters():
            parameter.grad.mul_(inverse)
            finite = finite and bool(parameter.grad.isfinite().all())
        return finite

    def fit(self):
        self.loader.sampler.set_epoch(0)
        for x, y in self.loader:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            if self.unscale():
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(96, 12), torch.randn(96, 2))
Trainer(DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))).fit()
dist.destroy_process_group()
