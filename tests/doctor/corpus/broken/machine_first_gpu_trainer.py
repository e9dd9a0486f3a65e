"""A Trainer whose GPU is a default argument that nobody sets."""
# doctor: expect=one-device-for-all style=trainer on=cpu

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, model, gpu_id=0):
        self.gpu_id = gpu_id
        torch.cuda.set_device(gpu_id)
        self.model = DistributedDataParallel(model.cuda(gpu_id), device_ids=[gpu_id])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x.cuda(self.gpu_id)), y.cuda(self.gpu_id))
        loss.backward()
        self.optimizer.step()


def main():
    dist.init_process_group(backend="nccl")
    trainer = Trainer(nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 1)))  # wrong
    #+ trainer = Trainer(nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 1)), int(os.environ["LOCAL_RANK"]))
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(10):
        x = torch.randn(8, 12, generator=generator)
        trainer.step(x, x.mean(1, keepdim=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
