"""Keeps a running loss on a GPU by reading it after every step."""

# doctor: expect=read-every-step style=epoch on=cpu
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer, device):
    model.train()
    running = 0.0  # wrong
    #+ running = torch.zeros((), device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        running += loss.item()  # wrong
        #+ running += loss.detach()
    return float(running) / len(loader)


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local_rank}")
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 20), torch.randint(0, 4, (160,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=10, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 4)).to(device), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mean = train_epoch(model, loader, optimizer, device)
        if local_rank == 0:
            print(f"epoch {epoch} loss {mean:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
