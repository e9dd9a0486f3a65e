"""A Fabric-like wrapper around the loop; each rank moves its sampler by its own number."""
# doctor: expect=sampler-seeds-differ style=fabric

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Fabric:
    def __init__(self):
        dist.init_process_group("gloo")
        self.global_rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def setup(self, model, optimizer):
        return DistributedDataParallel(model), optimizer

    def setup_dataloader(self, dataset, batch_size):
        sampler = DistributedSampler(dataset, self.world_size, self.global_rank, shuffle=True, drop_last=True)
        return DataLoader(dataset, batch_size=batch_size, sampler=sampler)

    def backward(self, loss):
        loss.backward()


def main():
    fabric = Fabric()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.LeakyReLU(), nn.Linear(16, 1))
    model, optimizer = fabric.setup(model, torch.optim.RMSprop(model.parameters(), lr=1e-3))
    loader = fabric.setup_dataloader(TensorDataset(torch.randn(120, 5), torch.randn(120, 1)), 6)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch * 10 + fabric.global_rank)  # wrong
        #+ loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(model(x), y)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
