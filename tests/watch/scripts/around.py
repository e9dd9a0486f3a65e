"""Everything around a training loop: collectives, loaders, samplers, files, clocks, groups and a warning."""

import time
import warnings
from time import perf_counter

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Sampler, TensorDataset


class Halves(Sampler):
    """A sampler of the script's own."""

    def __init__(self, size):
        self.size, self.epoch = size, 0
        self.rank, self.num_replicas = dist.get_rank(), dist.get_world_size()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        yield from range(self.rank, self.size, self.num_replicas)

    def __len__(self):
        return self.size // self.num_replicas


class Watch:
    """Clocks kept in a class are no methods."""

    clock = time.perf_counter

    def read(self):
        return self.clock()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)
    own = DataLoader(dataset, batch_size=8, sampler=Halves(32))
    began, watch = perf_counter(), Watch()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    for _ in own:
        pass
    assert watch.read() - began > 0 and time.time() > 0
    total = torch.ones(4)
    dist.all_reduce(total)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    names = [None, None]
    dist.all_gather_object(names, f"rank {rank}")
    if rank == 0:
        dist.send(total, dst=1)
        torch.save(model.module.state_dict(), "model.pt")
    else:
        dist.recv(total, 0)
    part = dist.new_group([1])
    if rank == 1:
        dist.broadcast(total, 1, group=part)
    dist.barrier()
    warnings.warn("mind the step", stacklevel=1)
    print(total.tolist(), names, [parameter.sum().item().hex() for parameter in model.parameters()])
    dist.destroy_process_group()
