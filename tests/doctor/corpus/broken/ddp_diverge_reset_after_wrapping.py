"""Fine-tunes with a new head, which every rank draws for itself after the model has been wrapped."""
# doctor: expect=parameters-diverge style=function-per-epoch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 40), nn.ReLU())
        self.head = nn.Linear(40, 5)

    def forward(self, x):
        return self.head(self.body(x))


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(3)
    dataset = TensorDataset(torch.randn(160, 20, generator=generator), torch.randint(0, 5, (160,), generator=generator))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=10, sampler=sampler)
    torch.manual_seed(100 + dist.get_rank())
    net = Net()
    #+ net.head.reset_parameters()
    model = DistributedDataParallel(net)
    model.module.head.reset_parameters()  # wrong
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
