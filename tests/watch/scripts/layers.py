"""Layer-wise model parallelism over logical devices: every hop is a real copy, forward and back."""

import torch
from torch import nn


class Hop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clone()


class Spread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        for stage in self.stages:
            x = torch.relu(stage(Hop.apply(x)))
        return x


torch.manual_seed(0)
model = Spread()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x, y = torch.randn(16, 32), torch.randn(16, 32)
for step in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
