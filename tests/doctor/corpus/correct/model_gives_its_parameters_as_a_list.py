"""A learner of learning: its model gives its parameters as a list, and its forward pass makes the optimizer's step."""

# doctor: style=module mode=python
import torch
from torch import nn
from torch.nn import functional as F


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(torch.randn(8, 4) * 0.1), nn.Parameter(torch.zeros(4))])

    def forward(self, x, values=None):
        weight, bias = self.values if values is None else values
        return x @ weight + bias

    def parameters(self):
        return self.values


class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Learner()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def parameters(self):
        return self.net.parameters()

    def forward(self, support, answers, query, truths):
        losses = []
        for task in range(len(support)):
            values = list(self.net.parameters())
            for _ in range(2):
                loss = F.mse_loss(self.net(support[task], values), answers[task])
                values = [one - 0.1 * g for one, g in zip(values, torch.autograd.grad(loss, values), strict=True)]
            losses.append(F.mse_loss(self.net(query[task], values), truths[task]))
        self.optimizer.zero_grad()
        (sum(losses) / len(losses)).backward()
        self.optimizer.step()


def main():
    torch.manual_seed(0)
    meta = Meta()
    for _ in range(12):
        meta(torch.randn(4, 5, 8), torch.randn(4, 5, 4), torch.randn(4, 5, 8), torch.randn(4, 5, 4))


if __name__ == "__main__":
    main()
