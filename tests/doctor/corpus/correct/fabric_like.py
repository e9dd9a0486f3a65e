"""A little framework of one's own: a Fabric that wraps model, optimizer and loader, and calls backward itself."""
# doctor: expect= style=fabric

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Fabric:
    def __init__(self, accumulate=1):
        self.accumulate = accumulate

    def launch(self):
        dist.init_process_group("gloo")
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def setup(self, module, optimizer):
        return FabricModule(DistributedDataParallel(module)), optimizer

    def setup_loader(self, loader):
        sampler = DistributedSampler(loader.dataset, shuffle=True)
        return FabricLoader(DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler), sampler)

    def backward(self, loss):
        (loss / self.accumulate).backward()

    def print(self, *words):
        if self.rank == 0:
            print(*words)

    def close(self):
        dist.destroy_process_group()


class FabricModule(nn.Module):
    """Passes on the call; the wrapper is inside, not outside."""

    def __init__(self, wrapped):
        super().__init__()
        self._forward_module = wrapped

    def forward(self, *args):
        return self._forward_module(*args)

    def no_backward_sync(self, enabled):
        import contextlib

        return self._forward_module.no_sync() if enabled else contextlib.nullcontext()


class FabricLoader:
    def __init__(self, loader, sampler):
        self.loader, self.sampler, self.epoch = loader, sampler, 0

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)


def main():
    fabric = Fabric(accumulate=2)
    fabric.launch()
    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(9, 27), nn.Hardswish(), nn.Linear(27, 2))
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    dataset = TensorDataset(torch.randn(96, 9), torch.randint(0, 2, (96,)))
    loader = fabric.setup_loader(DataLoader(dataset, batch_size=8))
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            accumulating = (i + 1) % fabric.accumulate != 0
            with model.no_backward_sync(enabled=accumulating):
                loss = nn.functional.cross_entropy(model(x), y)
                fabric.backward(loss)
            if not accumulating:
                optimizer.step()
                optimizer.zero_grad()
        fabric.print("epoch", epoch, float(loss))
    fabric.close()


if __name__ == "__main__":
    main()
