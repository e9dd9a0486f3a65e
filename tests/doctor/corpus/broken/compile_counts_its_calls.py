"""A compiled model that counts its calls in an attribute and computes with the count."""
# doctor: expect=recompiled-in-loop style=function mode=python

import torch
from torch import nn


class Warming(nn.Module):
    """Its output grows over the first hundred calls."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)
        self.calls = 0  # wrong
        #+ self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * (0.5 + 0.005 * self.calls)


def main():
    torch.manual_seed(0)
    model = Warming()
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(30):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        loss = nn.functional.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
