"""Raises inside forward, inside backward or inside the optimizer; the traceback is the script's business."""

import sys

import torch
from torch import nn

where = sys.argv[1]


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        ctx.step = step
        if where == "forward" and step == 3:
            raise ValueError("forward broke")
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if where == "backward" and ctx.step == 3:
            raise ValueError("backward broke")
        return gradient, None


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 1)

    def forward(self, x, step):
        return Fragile.apply(self.linear(x), step)


class Stubborn(torch.optim.SGD):
    def step(self, closure=None):
        if where == "optimizer" and self.seen == 3:
            raise ValueError("optimizer broke")
        self.seen += 1
        return super().step(closure)


torch.manual_seed(0)
model = Model()
optimizer = Stubborn(model.parameters(), lr=0.05)
optimizer.seen = 0
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x, step), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
