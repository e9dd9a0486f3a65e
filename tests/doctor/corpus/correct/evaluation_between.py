"""Evaluation after every epoch: a sampler that does not shuffle, metrics added up over the ranks, best model by rank 0."""
# doctor: expect= style=functions

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(model, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = torch.zeros(2)
    for x, y in loader:
        right += torch.tensor([(model(x).argmax(1) == y).sum().item(), len(y)])
    dist.all_reduce(right)
    return (right[0] / right[1]).item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    x = torch.randn(240, 10)
    y = (x.sum(1) > 0).long()
    train_set, test_set = TensorDataset(x[:160], y[:160]), TensorDataset(x[160:], y[160:])
    train_sampler = DistributedSampler(train_set)
    test_sampler = DistributedSampler(test_set, shuffle=False)
    train_loader = DataLoader(train_set, batch_size=16, sampler=train_sampler)
    test_loader = DataLoader(test_set, batch_size=20, sampler=test_sampler)
    model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    best = 0.0
    for epoch in range(4):
        train_sampler.set_epoch(epoch)
        train(model, train_loader, optimizer)
        accuracy = evaluate(model, test_loader)
        if accuracy > best:
            best = accuracy
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "best.pth")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
