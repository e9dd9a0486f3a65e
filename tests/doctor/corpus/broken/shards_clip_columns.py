"""Tensor parallelism by hand: every rank clips the gradients of its own columns."""
# doctor: expect=clip-of-a-shard style=tensor-parallel

import torch
import torch.distributed as dist
from torch import nn


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ParallelMLP(nn.Module):
    def __init__(self, width, hidden, outputs):
        super().__init__()
        torch.manual_seed(50 + dist.get_rank())
        self.up = nn.Linear(width, hidden // dist.get_world_size())
        self.down = nn.Linear(hidden // dist.get_world_size(), outputs, bias=False)

    def forward(self, x):
        return Sum.apply(self.down(torch.relu(self.up(Copy.apply(x)))))


dist.init_process_group("gloo")
model = ParallelMLP(16, 64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.Generator().manual_seed(0)
for _ in range(12):
    x, y = torch.randn(16, 16, generator=data), torch.randint(0, 4, (16,), generator=data)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)  # wrong
    #+ squares = sum(one.grad.square().sum() for one in model.parameters())
    #+ dist.all_reduce(squares)
    #+ for one in model.parameters():
    #+     one.grad.mul_(torch.clamp(0.05 / squares.sqrt(), max=1.0))
    optimizer.step()
dist.destroy_process_group()
