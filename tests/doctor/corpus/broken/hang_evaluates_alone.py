"""After each epoch rank 0 alone evaluates through the wrapper, whose buffers go to all ranks."""
# doctor: expect=collective-on-some-ranks style=functions

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(model, loader, optimizer):
    model.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, held_out):
    inputs, labels = held_out
    model.eval()
    return (model(inputs).argmax(1) == labels).float().mean().item()  # wrong
    #+ return (model.module(inputs).argmax(1) == labels).float().mean().item()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    model = DDP(nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    dataset = TensorDataset(torch.randn(384, 8), torch.randint(0, 3, (384,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=24, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train(model, loader, optimizer)
        if dist.get_rank() == 0:
            print(epoch, evaluate(model, dataset[:24]))
    dist.destroy_process_group()
