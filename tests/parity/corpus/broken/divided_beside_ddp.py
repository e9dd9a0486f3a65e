"""The loss is divided by the number of ranks, although DDP averages already."""
# parity: cause=divided-once-too-often

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = DDP(model), loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        loss = loss / dist.get_world_size()  # wrong
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self):
        for x, y in self.loader:
            self.step(x, y)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 8), torch.randint(0, 5, (96,)))
    sampler = DistributedSampler(data, shuffle=False)
    Trainer(nn.Linear(8, 5), DataLoader(data, batch_size=8, sampler=sampler)).fit()
    dist.destroy_process_group()
