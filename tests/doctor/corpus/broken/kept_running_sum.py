"""Trains a small classifier and prints the mean loss of each epoch."""

# doctor: expect=losses-kept style=epoch-function
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, criterion, optimizer):
    total_loss = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total_loss += loss  # wrong
        #+ total_loss += loss.item()
    return total_loss / len(loader)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(256, 20), torch.randint(0, 5, (256,)))
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mean = train_epoch(model, loader, criterion, optimizer)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {float(mean):.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
