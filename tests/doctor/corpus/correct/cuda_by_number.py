"""Written for GPUs that are called by their bare number: model.to(1), x.to(1), device_ids=[1]."""
# doctor: expect= style=trainer on=cpu

import os

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, loader, optimizer, path):
        self.gpu = int(os.environ["LOCAL_RANK"])
        self.model = model.to(self.gpu)
        self.loader, self.optimizer, self.path = loader, optimizer, path
        self.first = 0
        if os.path.exists(path):
            snapshot = torch.load(path, map_location=f"cuda:{self.gpu}", weights_only=True)
            self.model.load_state_dict(snapshot["model"])
            self.first = snapshot["epochs"]
        self.model = DDP(self.model, device_ids=[self.gpu])

    def epoch(self, number):
        self.loader.sampler.set_epoch(number)
        for x, y in self.loader:
            x, y = x.to(self.gpu), y.to(self.gpu)
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    def train(self, epochs):
        for number in range(self.first, epochs):
            self.epoch(number)
            if self.gpu == 0:
                torch.save({"model": self.model.module.state_dict(), "epochs": number + 1}, self.path)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group(backend="nccl")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 20), torch.randint(0, 4, (128,)))
    loader = DataLoader(data, batch_size=16, pin_memory=True, shuffle=False, sampler=DistributedSampler(data))
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-2), "snapshot.pt").train(3)
    destroy_process_group()


if __name__ == "__main__":
    main()
