"""A function per epoch, with an evaluation after each."""
# doctor: expect=epoch-never-set style=functions args=--epochs 3

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = sum(nn.functional.mse_loss(model(x), y) for x, y in loader)
    dist.all_reduce(total)
    return total / len(loader) / dist.get_world_size()


def main(epochs):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(160, 8)
    y = x @ torch.randn(8, 2)
    train_sampler = DistributedSampler(TensorDataset(x, y), shuffle=True)
    train = DataLoader(train_sampler.dataset, batch_size=16, sampler=train_sampler)
    held_out = TensorDataset(torch.randn(32, 8), torch.randn(32, 2))
    test = DataLoader(held_out, batch_size=16, sampler=DistributedSampler(held_out, shuffle=False))
    model = DDP(nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        #+ train_sampler.set_epoch(epoch)
        train_epoch(model, train, optimizer)
        error = evaluate(model, test)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {error:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    main(parser.parse_args().epochs)
