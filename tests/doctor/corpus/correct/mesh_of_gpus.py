"""Tensor parallelism by a mesh of GPUs: the mesh chooses each rank's device, and all ranks see the same batch."""
# doctor: expect= style=mesh on=cpu

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 64)
        self.down = nn.Linear(64, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def main():
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    torch.manual_seed(0)
    model = parallelize_module(MLP().to("cuda"), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    for step in range(8):
        torch.manual_seed(step)  # the same input on every rank of the mesh
        loss = model(torch.rand(10, 16, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
