"""Four ranks as a grid: data parallel along one side, each pair of the other side shares a batch and splits a layer."""
# doctor: expect= style=mesh ranks=4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


class Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Split(nn.Module):
    def __init__(self, width, hidden, outputs, group):
        super().__init__()
        self.group = group
        self.up = nn.Linear(width, hidden // group.size())
        self.down = nn.Linear(hidden // group.size(), outputs, bias=False)

    def forward(self, x):
        return Added.apply(self.down(torch.relu(self.up(Shared.apply(x, self.group)))), self.group)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    replicas, tensor = mesh.get_group("data"), mesh.get_group("tensor")
    torch.manual_seed(10 + mesh.get_local_rank("tensor"))
    model = Split(12, 32, 4, tensor)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(mesh.get_local_rank("data"))
    for _ in range(10):
        x, y = torch.randn(8, 12, generator=data), torch.randint(0, 4, (8,), generator=data)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=replicas)
            p.grad /= 2
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
