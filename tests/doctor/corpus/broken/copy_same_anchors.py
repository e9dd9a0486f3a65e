"""A detector whose head keeps its anchors in a plain attribute, so that they stay on the host."""
# doctor: expect=same-copy-every-step style=function mode=python on=cpu

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, anchors):
        super().__init__()
        self.layer = nn.Linear(32, 4)
        self.anchors = anchors  # wrong
        #+ self.register_buffer("anchors", anchors)

    def forward(self, x):
        return self.layer(x) + self.anchors[: len(x)].cuda()


def main():
    torch.manual_seed(0)
    model = Head(torch.randn(8192, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(16):
        x = torch.randn(8192, 32, device="cuda")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
