"""Trains through the wrapper; evaluates, and keeps a frozen teacher, through the module inside."""
# doctor: expect= style=function-per-epoch

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, teacher, loader, optimizer):
    model.train()
    for x, y in loader:
        with torch.no_grad():
            soft = teacher(x).softmax(-1)
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y) + 0.1 * nn.functional.cross_entropy(logits, soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        right = (net(x).argmax(-1) == y).float().mean()
    dist.all_reduce(right)
    return right.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x, y = torch.randn(128, 16), torch.randint(0, 4, (128,))
    dataset = TensorDataset(x, y)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    teacher = copy.deepcopy(model.module).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        train_epoch(model, teacher, loader, optimizer)
        evaluate(model.module, x, y)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
