"""Warm-up of the head alone with the body frozen, then both; a new optimizer and a new wrapper for each phase."""
# doctor: expect= style=finetune

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(14, 28), nn.ReLU())
        self.head = nn.Linear(28, 4)

    def forward(self, x):
        return self.head(self.body(x))


def fit(net, data, epochs, rate, first_epoch):
    model = DDP(net)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=rate)
    for epoch in range(first_epoch, first_epoch + epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 14), torch.randint(0, 4, (96,)))
    net = Net()
    net.body.requires_grad_(False)
    fit(net, data, epochs=1, rate=1e-2, first_epoch=0)
    net.body.requires_grad_(True)
    fit(net, data, epochs=2, rate=1e-3, first_epoch=1)
    if dist.get_rank() == 0:
        torch.save(net.state_dict(), "tuned.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
