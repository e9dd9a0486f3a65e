"""Halves of a model on two GPUs; the batch goes through in pieces, so that both have work."""

# doctor: expect= style=main mode=python on=cpu
import torch
from torch import nn


class Pipelined(nn.Module):
    def __init__(self, pieces=4):
        super().__init__()
        self.front = nn.Linear(16, 32).to("cuda:0")
        self.back = nn.Sequential(nn.ReLU(), nn.Linear(32, 4)).to("cuda:1")
        self.pieces = pieces

    def forward(self, x):
        pieces = iter(x.chunk(self.pieces))
        ahead = self.front(next(pieces)).to("cuda:1")
        done = []
        for piece in pieces:
            done.append(self.back(ahead))
            ahead = self.front(piece).to("cuda:1")
        done.append(self.back(ahead))
        return torch.cat(done)


def main():
    torch.manual_seed(0)
    model = Pipelined()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(6):
        x, y = torch.randn(32, 16, device="cuda:0"), torch.randint(0, 4, (32,), device="cuda:1")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
