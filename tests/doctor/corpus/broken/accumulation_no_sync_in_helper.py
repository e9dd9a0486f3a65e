"""A Fabric-like runner whose backward() takes care of no_sync(), too late for DDP."""
# doctor: expect=no-sync-around-backward-only style=fabric

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Runner:
    def launch(self):
        dist.init_process_group("gloo")

    def setup(self, module, optimizer):
        self.model = DistributedDataParallel(module)
        return self.model, optimizer

    @contextlib.contextmanager
    def accumulating(self, enabled):
        with self.model.no_sync() if enabled else contextlib.nullcontext():
            yield

    def backward(self, loss):
        loss.backward()


def training_step(model, batch):
    features, labels = batch
    return nn.functional.cross_entropy(model(features), labels)


def main():
    runner = Runner()
    runner.launch()
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5))
    model, optimizer = runner.setup(net, torch.optim.Adam(net.parameters(), lr=1e-3))
    data = TensorDataset(torch.randn(240, 20), torch.randint(0, 5, (240,)))
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for index, batch in enumerate(DataLoader(data, batch_size=10, sampler=sampler)):
            is_accumulating = (index + 1) % 3 != 0
            loss = training_step(model, batch) / 3  # wrong
            with runner.accumulating(is_accumulating):
                #+ loss = training_step(model, batch) / 3
                runner.backward(loss)
            if not is_accumulating:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
