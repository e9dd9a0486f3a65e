"""Fine-tunes the head of a frozen backbone, and thinks that frozen parameters count as unused."""
# doctor: expect=needless-find-unused style=trainer args=--epochs 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 48))
        self.head = nn.Linear(48, 3)
        self.backbone.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone(x))


class FineTuner:
    def __init__(self, loader, sampler):
        self.loader, self.sampler = loader, sampler
        self.model = DistributedDataParallel(
            Classifier(),
            find_unused_parameters=True,  # wrong
        )
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=1e-2)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        for features, labels in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(features), labels)
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(96, 24), torch.randint(0, 3, (96,)))
    sampler = DistributedSampler(data)
    tuner = FineTuner(DataLoader(data, batch_size=8, sampler=sampler), sampler)
    for number in range(args.epochs):
        tuner.epoch(number)
    dist.destroy_process_group()
