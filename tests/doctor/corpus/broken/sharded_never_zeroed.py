"""FSDP2 around the layers only, as in large models; the gradients of all steps add up."""
# doctor: expect=never-zeroed style=fsdp2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Blocks(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return x


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Blocks(3, 16)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(10):
        x = torch.randn(8, 16)
        nn.functional.mse_loss(model(x), x.sin()).backward()
        optimizer.step()
        #+ optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
