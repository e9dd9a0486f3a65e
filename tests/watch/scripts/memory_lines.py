"""A large activation of one line, a block that every step keeps, and pauses in which memory can be read."""

import time

import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        wide = self.layer(inputs).repeat(1, 4096).exp()  # the large one
        return wide.mean()


torch.manual_seed(0)
model = Wide()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = []
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).backward()
    optimizer.step()
    kept.append(torch.zeros(2**20))
    time.sleep(0.3)
print(float(sum(parameter.sum() for parameter in model.parameters())))
