"""Saves after each epoch, on every rank, to one file."""
# doctor: expect=checkpoint-by-all-ranks style=function-per-epoch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer, epoch):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def save(model, optimizer, epoch):
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    #+ if dist.get_rank() == 0:
    #+     torch.save(state, "checkpoint.pt")
    #+ dist.barrier()
    torch.save(state, "checkpoint.pt")  # wrong


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        train_epoch(model, loader, optimizer, epoch)
        save(model, optimizer, epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
