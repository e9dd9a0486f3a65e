"""A Trainer class; each rank shuffles the dataset with a seed of its own."""
# doctor: expect=no-distributed-sampler style=trainer

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Points(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(5)
        self.points = torch.randn(count, 10, generator=generator)
        self.labels = (self.points.norm(dim=1) > 3).long()

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return {"inputs": self.points[index], "label": self.labels[index]}


class Trainer:
    def __init__(self, model, dataset, batch_size=16):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)  # wrong
        #+ self.loader = DataLoader(dataset, batch_size=batch_size, sampler=self.sampler)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                self.training_step(batch)

    def training_step(self, batch):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(batch["inputs"]), batch["label"])
        loss.backward()
        self.optimizer.step()


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    seed_everything(dist.get_rank())
    Trainer(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)), Points(128)).fit(2)
    dist.destroy_process_group()
