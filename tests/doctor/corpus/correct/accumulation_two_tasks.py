"""Two tasks with a loader each and one function for both: their losses are meant to be added."""
# doctor: expect= style=function-per-epoch mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(12, 24)
        self.heads = nn.ModuleDict({"kind": nn.Linear(24, 3), "size": nn.Linear(24, 1)})

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.trunk(x)))


def learn(model, batch, task):
    x, y = batch
    out = model(x, task)
    loss = nn.functional.cross_entropy(out, y) if task == "kind" else nn.functional.mse_loss(out, y)
    loss.backward()


def main():
    torch.manual_seed(0)
    kinds = DataLoader(TensorDataset(torch.randn(96, 12), torch.randint(0, 3, (96,))), batch_size=8, shuffle=True)
    sizes = DataLoader(TensorDataset(torch.randn(96, 12), torch.randn(96, 1)), batch_size=8, shuffle=True)
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        kind, size = iter(kinds), iter(sizes)
        for _ in range(len(kinds)):
            optimizer.zero_grad()
            learn(model, next(kind), "kind")
            learn(model, next(size), "size")
            optimizer.step()


if __name__ == "__main__":
    main()
