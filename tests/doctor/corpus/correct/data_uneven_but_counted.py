"""Parts of different length, but the loop counts steps and begins a part anew."""
# doctor: expect= style=while args=--steps 22

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=22)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    count = 40 + 24 * dist.get_rank()
    loader = DataLoader(TensorDataset(torch.randn(count, 4), torch.randn(count, 1)), batch_size=8, shuffle=True)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters())
    for step, (x, y) in zip(range(args.steps), forever(loader)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            total = loss.detach().clone()
            dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
