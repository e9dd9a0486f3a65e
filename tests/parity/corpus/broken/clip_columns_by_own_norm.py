"""Tensor parallelism by DTensor: gradients are clipped by the norm of the local columns."""
# parity: cause=clip-of-a-shard

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32, bias=False), nn.Linear(32, 8, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.roll(1, 1)).backward()
        gradients = [p.grad.to_local() for p in model.parameters()]
        squares = sum(g.square().sum() for g in gradients)
        # + dist.all_reduce(squares)
        factor = torch.clamp(0.05 / squares.sqrt(), max=1.0)
        for g in gradients:
            g.mul_(factor)
        optimizer.step()
    print("done")  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
